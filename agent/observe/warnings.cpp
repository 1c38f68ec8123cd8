#include "agent/observe/warnings.h"

#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "agent/observe/event_fields.h"
#include "agent/report/format.h"
#include "gossip/limits.h"
#include "gossip/net/other_version.h"

namespace starling {
namespace {

constexpr Duration kEvery = std::chrono::minutes(1);
constexpr uint64_t kStepsToLearn = 500;
constexpr double kFarMin = 0.05;     // rms of the farthest model: below, all are near
constexpr uint64_t kLeftOutMin = 3;  // one or two happen while a young model still moves far
constexpr double kLowered = 0.02;    // of the first loss, which may be below zero

// Of an agent that began with the swarm: the loss of a model that has learned may stay.
bool learns_nothing(const AgentStatus& status) {
  return status.steps_taken >= kStepsToLearn && status.steps_taken == status.steps && status.loss &&
         status.first_loss && *status.loss > *status.first_loss - kLowered * std::abs(*status.first_loss);
}

// Frames of other swarms are no damage: whoever asks to join has no swarm yet.
template <typename Use>
void for_each_refusal(const FramesRefused& refused, const Use& use) {
  event_fields::for_each_field<FramesRefused>([&](const auto& field) {
    if (field.value != &FramesRefused::other_swarm) use(field.name, refused.*field.value);
  });
}

uint64_t count_refused(const AgentStatus& status) {
  uint64_t sum = 0;
  for_each_refusal(status.frames_refused, [&](const char*, uint64_t count) { sum += count; });
  return sum;
}

void add_count(std::string& text, uint64_t count, const char* what) {
  if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
}

// "3 bad_checksum, 1 too_short"
std::string list_refused(const AgentStatus& status) {
  std::string text;
  for_each_refusal(status.frames_refused, [&](const char* cause, uint64_t count) { add_count(text, count, cause); });
  return text;
}

// "3 payloads, 1 heads"
std::string list_refused(const UpdateCounters& updates) {
  std::string text;
  add_count(text, updates.payloads_refused, "payloads");
  add_count(text, updates.entries_refused, "entries");
  add_count(text, updates.blocks_refused, "blocks of states");
  add_count(text, updates.heads_refused, "heads");
  return text;
}

// "1 frame was", "17 frames were"
std::string print_were(uint64_t count, const char* noun) {
  return print_count(count, noun) + (count == 1 ? " was" : " were");
}

struct Warning {
  uint64_t (*count)(const AgentStatus&);
  std::string (*say)(const AgentStatus&);
};

// What limits.h and the counters promise never to keep silent about.
constexpr std::pair<const char*, Warning> kWarnings[] = {
    {"table full",
     {[](const AgentStatus& status) { return status.membership.table_full; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} members found no room in the member table, which holds {}: this agent does not exchange "
            "with them; start the newcomers as a swarm of their own",
            status.membership.table_full, kMembersMax);
      }}},
    {"metrics lost",
     {[](const AgentStatus& status) { return status.metrics_lines_lost; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} lines of metrics could not be written ({}): lines are written again once that is "
            "mended; or start again with another file (--metrics)",
            status.metrics_lines_lost, status.metrics_lost_last);
      }}},
    {"frames refused",
     {count_refused,
      [](const AgentStatus& status) {
        if (count_refused(status) == status.frames_refused.wrong_channel) {
          return fmt::format(
              "{} refused at the port for bulk data: an agent seems to name this one by the wrong port. Start it with "
              "the port that this one listens on",
              print_were(count_refused(status), "frame"));
        }
        return fmt::format(
            "{} refused ({}); if these come from your own agents, run one version of "
            "starling everywhere, else keep strangers from this agent's ports",
            print_were(count_refused(status), "frame"), list_refused(status));
      }}},
    {"links refused",
     {[](const AgentStatus& status) { return status.links.refused; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} turned away: {} to this agent are open, the limit for a swarm of this size, or half as many from one "
            "host. Keep strangers from its ports, or raise the limit of open files (ulimit -n)",
            print_were(status.links.refused, "link"), status.links.open);
      }}},
    {"links cut",
     {[](const AgentStatus& status) { return status.links.cut; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} cut for endless messages, what nobody can read, or frames of others or of former members. Keep those "
            "senders from this agent's ports",
            print_were(status.links.cut, "link"));
      }}},
    {"strangers",
     {[](const AgentStatus& status) { return status.links.strangers; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} not let in, for want of a ticket of this swarm. If an agent of yours opens them, give it its ticket, "
            "the file `ticket` of this state folder or what `starling admit` prints, or update its program",
            print_were(status.links.strangers, "link"));
      }}},
    {"joins refused",
     {[](const AgentStatus& status) { return status.joins.refused; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} an agent was not let in, because its settings or its version are not those of "
            "this swarm; it was told the difference. If it is yours, start it without --config, so "
            "that it adopts these, and with a folder of its own (--state), or update the older program",
            print_count(status.joins.refused, "time"));
      }}},
    {"older newcomers",
     {[](const AgentStatus& status) { return status.joins.older; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} a newcomer with an older program asked to join or for the model; this one speaks version "
            "{} of the protocol. The newcomer gets no model. If it is yours, update its program",
            print_count(status.joins.older, "time"), version_name(kProtocolRevision));
      }}},
    {"left out",
     {[](const AgentStatus& status) {
        const bool near = status.spread && *status.spread < kFarMin;
        return near || status.exchanges.left_out < kLeftOutMin ? 0 : status.exchanges.left_out;
      },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} times a model did not count, because it is much farther away than the others, last that of {}. "
            "Look at that agent's loss, data and learning rate. If they are in order it comes near again by "
            "itself; else stop it, or start it with an empty folder (--state) to fetch the swarm's model",
            status.exchanges.left_out, status.left_out_last);
      }}},
    {"diverging",
     {[](const AgentStatus& status) { return status.rounds_diverging; },
      [](const AgentStatus& status) {
        return fmt::format(
            "training diverges: the loss is {:.3g}, and has been above ten times its first value ({:.3g}) for more "
            "than 20 rounds. The model is hardly of use any more; stop the swarm and begin again with a lower "
            "swarm.optimizer.learning_rate (now {:.3g}), or look at this agent's data if the others learn",
            status.loss.value_or(0), status.first_loss.value_or(0), status.learning_rate);
      }}},
    {"not learning",
     {[](const AgentStatus& status) { return learns_nothing(status) ? status.steps_taken : 0; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} steps have not lowered the loss: it is {:.3g}, and was {:.3g} at first. Begin again with another "
            "swarm.optimizer.learning_rate (now {:.3g}), or look at the labels of the data",
            status.steps_taken, *status.loss, *status.first_loss, status.learning_rate);
      }}},
    {"updates refused",
     {[](const AgentStatus& status) { return status.updates.refused(); },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} messages about the log of updates were refused, because they cannot be true or are "
            "damaged ({}){}; nothing here was changed by them. An agent that was cut off may send such "
            "messages for a few rounds. If it goes on, look at that agent's memory and its version of "
            "starling, and stop it if it is not yours",
            status.updates.refused(), list_refused(status.updates),
            status.refused_last.empty() ? "" : ", the last of them from " + status.refused_last);
      }}},
    {"thin uplink",
     {[](const AgentStatus& status) { return status.pairs.thin_uplink; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} sending the model took more than twice as long as the steps of others. This agent only "
            "initiates exchanges, so that others do not wait for it, and makes fewer. Give it a faster uplink, "
            "or let the swarm send less (exchange.codec: modulo4, or exchange.fragments)",
            print_count(status.pairs.thin_uplink, "time"));
      }}},
    {"doubts broken",
     {[](const AgentStatus& status) { return status.pairs.doubts_broken; },
      [](const AgentStatus& status) {
        return fmt::format(
            "{} exchanges were given up in doubt: more than {} partners fell silent before their last "
            "word. One half of each may be missing, which moves the swarm's mean. Look at those agents "
            "and the links to them",
            status.pairs.doubts_broken, kParkedDoubtsMax);
      }}},
};

}  // namespace

Warnings::Warnings(const Clock& clock, const MetricsFile* metrics, Say say)
    : clock_(clock), metrics_(metrics), say_(std::move(say)) {}

void Warnings::on(const Event& event) {
  const auto* end = std::get_if<Finished>(&event);  // of a run that may have lasted less than a second
  const AgentStatus* reported = end ? end : std::get_if<AgentStatus>(&event);
  if (!reported) return;
  AgentStatus status = *reported;
  if (metrics_) {
    status.metrics_lines_lost = metrics_->failed_writes();
    status.metrics_lost_last = metrics_->lost_because();
  }
  const TimePoint now = clock_.now();
  for (const auto& [name, warning] : kWarnings) {
    Said& said = said_.try_emplace(name, Said{0, now}).first->second;
    const uint64_t count = warning.count(status);
    if (count <= said.count || now < said.next) continue;
    said = {count, now + kEvery};
    say_(warning.say(status));
  }
}

}  // namespace starling
