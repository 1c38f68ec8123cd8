// Any member's answer to a newcomer: who is here, what we agreed on, and the model, block by block, from the last
// checkpoint file, which does not move while it is being fetched (soundness §4).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bootstrap/model_file.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"

namespace starling {

struct DonorCounters {
  uint64_t joins = 0, joins_refused = 0, blocks_sent = 0, bytes_sent = 0;
};

class Donor {
 public:
  // `compare(ours, theirs)` lists the differing lines of two settings texts, for the refusal.
  using Compare = std::function<std::string(const std::string&, const std::string&)>;
  Donor(Membership& membership, Outbox& outbox, Compare compare);

  // Empty: this registry has met no swarm yet, and adopts the settings of the first agent that joins it.
  void set_settings(std::string settings);
  const std::string& settings() const;
  // The file served from now on; transfers of the one before end with ModelGone when it is replaced twice.
  void set_model(std::shared_ptr<const ModelFile> model);

  // Join, ModelRequest, ModelBlockRequest; answers are ignored. Replies go to the frame's reply_to.
  void handle(const FrameHeader& header, const BootstrapMessage& message);
  const DonorCounters& counters() const;

 private:
  void answer_join(const FrameHeader& header, const Join& join);
  void offer_model(const FrameHeader& header, const ModelRequest& request);
  void send_block(const FrameHeader& header, const ModelBlockRequest& request);
  std::shared_ptr<const ModelFile> find_model(uint64_t snapshot) const;
  Membership& membership_;
  Outbox& outbox_;
  Compare compare_;
  std::string settings_;
  std::shared_ptr<const ModelFile> model_, previous_;
  DonorCounters counters_;
};

}  // namespace starling
