// What an agent reports to people and programs: one struct per event. An agent only fills them in; observers print,
// count and warn. event_fields.h has the names of the fields on a line of metrics.jsonl, for writer and reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/report/exchange_counts.h"
#include "agent/report/step_breakdown.h"
#include "gossip/exchange/counters.h"
#include "gossip/exchange/exchange.h"
#include "gossip/membership/member.h"
#include "gossip/pairs/status.h"
#include "gossip/updates/status.h"

namespace starling {

// Peers are hex ids throughout. A number that was not measured is nullopt, or not finite: `null` on a line.

struct Started {
  std::string name, peer, endpoint;
  uint64_t generation = 0;
};

struct DataLoaded {
  std::vector<int64_t> labels;  // classes in the training data, ascending
  uint64_t samples = 0;
};

struct Joined {
  std::string how;  // genesis | fetched | resumed | alone
  uint64_t steps = 0, round = 0;
  double seconds = 0;  // since the agent's start
  uint64_t peers = 0, params = 0;
  std::string data;  // the trainer's summary of its data
};

struct ModelFetched {
  uint64_t bytes = 0;
  double seconds = 0;
};

struct ExchangeEnded {
  std::string peer, name;  // of the partner; the name is empty if it is no longer known
  bool initiated = false;  // by this agent
  std::string outcome;     // done | late | failed | busy
  double ms = 0;
  uint64_t blocks = 0, blocks_total = 0, bytes_out = 0, bytes_in = 0;
  std::optional<double> distance;  // of the two models, relative to the size of this one
  double scale = 1;                // below 1: the guard clipped
  uint64_t steps = 0;
};

// Of sums, those with one partner. A group has none: its peer is empty.
struct ExchangesWith {
  std::string peer;
  uint64_t done = 0, late = 0, failed = 0, busy = 0;
};

// What ExchangeEnded tells of several that ended one after the other.
struct ExchangesSummed {
  double seconds = 0;  // from the end of the first until now
  uint64_t done = 0, late = 0, failed = 0, busy = 0;
  uint64_t initiated = 0;            // by this agent
  uint64_t clipped = 0;              // by the guard
  std::optional<double> ms, ms_max;  // mean and longest of those done and late
  uint64_t blocks = 0, blocks_total = 0, bytes_out = 0, bytes_in = 0;
  std::optional<double> distance;  // mean
  uint64_t steps = 0;              // of this agent at the last one
  std::vector<ExchangesWith> with;
};

// Frames that were not taken in, by cause, and those of other swarms.
struct FramesRefused {
  uint64_t wrong_parts = 0;  // by the transport: of another number of parts, or too large
  uint64_t too_short = 0, too_long = 0, bad_magic = 0, wrong_version = 0, bad_checksum = 0, malformed = 0;
  uint64_t unknown_message = 0, out_of_range = 0, wrong_channel = 0, payload_mismatch = 0;  // as DecodeStatus says
  uint64_t wrong_sender = 0;  // the header names another sender than the one that the transport authenticated
  uint64_t other_swarm = 0;   // from agents with other settings, or with none yet
};

struct FrameTraffic {
  uint64_t sent = 0, received = 0;
  uint64_t dropped = 0;       // queues full, links gone
  uint64_t sends_failed = 0;  // unknown peer, bad address or full queue
};

struct JoinsAnswered {
  uint64_t accepted = 0;
  uint64_t refused = 0;  // their settings differ
  uint64_t dropped = 0;  // one source address sent too many
  uint64_t older = 0;    // newcomers refused, and requests for the model, of programs older than this one
};

// Blocks of the model given to newcomers.
struct ModelGiven { uint64_t blocks = 0, bytes = 0; };

// About once a second, from the start on. All counters count since the agent began.
struct AgentStatus {
  std::string phase;  // joining | training | paused | settling | finished | sick; a registry's is "registry".
                      // While joining there is no model yet, so steps, round and samples are 0
  uint64_t steps = 0, round = 0, samples = 0;
  uint64_t steps_taken = 0;  // since the agent began: `steps` has those of its checkpoint or of its donor too
  // How far the swarm is (its median member), and where it stops; stop_after 0: it does not, or no training has begun.
  uint64_t swarm_steps = 0, stop_after = 0;
  bool first_steps = false;  // the steps under way are the first that this agent takes. Not in the metrics
  std::optional<double> loss, accuracy, distance;
  std::optional<double> first_loss;  // what `loss` is compared with
  uint64_t rounds_diverging = 0;     // after the 20th in a row with a loss above ten times that
  // Estimates from the members' records, in rms over this model's rms. nullopt: nobody's model is known. While training
  // records are some seconds old, so what models have moved since counts too: fast ones are nearer than it says.
  std::optional<double> swarm_distance;  // from this model to the mean of all
  std::optional<double> spread;          // from this model to the farthest other
  uint64_t peers = 0;                    // living members that train, without this one
  double learning_rate = 0, steps_per_s = 0;
  uint64_t threads = 0;  // of the trainer, as it chose by trial (agent.threads: 0); 0: it chooses none
  StepBreakdown step;    // of the window that steps_per_s is of
  ExchangeCounts exchanges;
  std::string left_out_last;  // of exchanges.left_out: its name, or the id if it has none
  BlockTally blocks;
  PairwiseCounters pairs;
  std::optional<double> drift;  // of pairs while the agent trained, in own steps (agent/run/pair_drift.h)
  uint64_t doubts_parked = 0;   // now: pair exchanges that have waited long for their proposer's decision
  GroupCounters group;
  UpdateCounters updates;
  std::string log_heads;            // of updates: equal at members that hold equal logs, so equal models
  std::optional<double> held_back;  // of updates: the norm of what was learned here and no entry counts yet
  std::string refused_last;         // of updates.refused(): the sender's name or id; empty: not known
  uint64_t bytes_sent = 0, bytes_received = 0;
  // Bytes in a round, from its steps to the next ones, with everything sent beside the exchange: the mean since the
  // agent began, and the last round. nullopt: no round has ended.
  std::optional<double> sent_a_round, sent_last_round;
  LinkCounters links;
  FrameTraffic frames;
  FramesRefused frames_refused;
  JoinsAnswered joins;
  uint64_t proposals_refused = 0;  // to exchange: of those that are no member, or take no part
  ModelGiven given;
  MembershipCounters membership;
  // Known to the metrics file alone, which fills them in.
  uint64_t metrics_lines_lost = 0;
  std::string metrics_lost_last;  // why the last of them was; empty: none was
};

struct Evaluated {
  uint64_t steps = 0;
  std::optional<double> accuracy, loss;
};

struct MemberChanged {
  std::string peer, name;
  std::string change;  // joined | suspected | alive | died | left | restarted
  std::string address;
};

struct CheckpointSaved {
  uint64_t steps = 0;
  std::string file;  // empty: nothing was written, or it is kept in memory
  double ms = 0;
  std::string error;  // empty: it is saved
};

// Sharing has stopped, and the agent goes back to its last good state.
struct BecameSick {
  uint64_t steps = 0;
  std::string reason;
};

// The last event of an orderly end.
struct Finished : AgentStatus {
  std::string reason;           // stop_after | signal
  std::optional<bool> settled;  // the models agreed at the end; nullopt: it was not asked, or there was nobody
};

using Event = std::variant<Started, DataLoaded, Joined, ModelFetched, ExchangeEnded, ExchangesSummed, AgentStatus,
                           Evaluated, MemberChanged, CheckpointSaved, BecameSick, Finished>;

// Called on the control thread, and may not block it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on(const Event& event) = 0;
};

// Passes events to several observers, in their order. They must outlive it.
class Observers final : public Observer {
 public:
  explicit Observers(std::vector<Observer*> all) : all_(std::move(all)) {}
  void on(const Event& event) override {
    for (Observer* one : all_) one->on(event);
  }

 private:
  std::vector<Observer*> all_;
};

}  // namespace starling
