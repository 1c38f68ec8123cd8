// Serves the model to newcomers, block by block, from the last checkpoint file, because its params do not change during
// a transfer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/model_file.h"
#include "gossip/clock.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"

namespace starling {

struct DonorCounters { uint64_t blocks_sent = 0, bytes_sent = 0; };

class Donor {
 public:
  explicit Donor(Outbox& outbox) : outbox_(outbox) {}

  // How far this agent is. A model that is much older is not given while a newer one may come.
  void set_steps(uint64_t steps) { steps_ = steps; }
  // A newcomer asked for a model that is much older than set_steps(): to be asked for at each tick, and saved soon. The
  // newcomer is answered by the next set_model(), or told after a while that there is none.
  bool wants_newer(TimePoint now);

  // Sets the file to serve. Transfers of the previous file go on until the next call; then they end with ModelGone. So
  // do those of a file that turns out damaged, and wants_newer() asks for the next one.
  void set_model(std::shared_ptr<const ModelFile> model);

  // ModelRequest, ModelBlockRequest; others are ignored. Replies go to the frame's reply_to. `source`: the host that
  // sent it, as the connection has it: a host may go by many names.
  // REQUIRES: the sender has shown that it can be reached there.
  void handle(const FrameHeader& header, const BootstrapMessage& message, const std::string& source);
  const DonorCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    PeerAddress newcomer;
    std::string source;              // the host that asked
    uint64_t nonce = 0;              // of the request
    std::optional<TimePoint> since;  // nullopt: until the next tick
  };
  struct Given {
    std::string source;  // the host that asked
    std::weak_ptr<const void> owner;
  };
  void offer_model(const FrameHeader& header, const ModelRequest& request, const std::string& source);
  void send_offer(const PeerAddress& to, uint64_t nonce, uint32_t first_hash, bool given);
  void send_block(const FrameHeader& header, const ModelBlockRequest& request, const std::string& source);
  bool may_give(const std::string& source);
  bool too_old() const;
  std::shared_ptr<const ModelFile> find_model(uint64_t snapshot) const;
  Outbox& outbox_;
  std::shared_ptr<const ModelFile> model_, previous_;
  uint64_t steps_ = 0;
  bool asked_ = false;                    // for a model that is too old
  bool damaged_ = false;                  // model_: nothing of it is given any more
  std::optional<TimePoint> waits_since_;  // for a newer one
  bool gives_any_ = false;                // none came in time
  std::vector<Waiting> waiting_;          // those that asked for it
  std::vector<Given> given_;              // blocks that are in memory until they are sent or dropped
  DonorCounters counters_;
};

}  // namespace starling
