// The one table of all events: what each is called on a line of metrics.jsonl, and its fields by name. Writer, reader
// and the test of the documentation (README.md here) all walk over it: a new field of an event is its member and a row.
#pragma once

#include <tuple>

#include "agent/observe/events.h"

namespace starling::event_fields {

enum class Written { kAlways, kUnlessEmpty };

template <typename Owner, typename Value>
struct Field {
  const char* name;
  Value Owner::* value;
  Written written = Written::kAlways;
};

template <typename Owner, typename Value>
constexpr Field<Owner, Value> field(const char* name, Value Owner::* value, Written written = Written::kAlways) {
  return {name, value, written};
}

template <typename T>
struct Of {};

// A table of counters only, one row for each member.
template <typename Counters, typename... Fields>
constexpr std::tuple<Fields...> all_counters(Fields... fields) {
  static_assert(sizeof(Counters) == sizeof...(Fields) * sizeof(uint64_t), "a counter has no row here");
  return {fields...};
}

constexpr auto fields(Of<ExchangeCounts>) {
  using T = ExchangeCounts;
  return all_counters<T>(field("done", &T::done), field("late", &T::late), field("failed", &T::failed),
                         field("left_out", &T::left_out));
}

constexpr auto fields(Of<BlockTally>) {
  using T = BlockTally;
  return all_counters<T>(field("due", &T::due), field("counted", &T::counted), field("old", &T::old),
                         field("late", &T::late), field("missing", &T::missing), field("dead", &T::dead),
                         field("refused", &T::refused), field("injected", &T::injected),
                         field("averages_due", &T::averages_due), field("averages_counted", &T::averages_counted),
                         field("ignored_messages", &T::ignored_messages));
}

constexpr auto fields(Of<PairwiseCounters>) {
  using T = PairwiseCounters;
  return all_counters<T>(field("initiated", &T::initiated), field("accepted", &T::accepted), field("done", &T::done),
                         field("late", &T::late), field("failed", &T::failed), field("busy_sent", &T::busy_sent),
                         field("busy_received", &T::busy_received), field("clipped", &T::clipped),
                         field("guard_refused", &T::guard_refused), field("mixing_permille", &T::gain_permille),
                         field("unanswered", &T::unanswered), field("undecided", &T::undecided),
                         field("crossed", &T::crossed), field("queued", &T::queued), field("expired", &T::expired),
                         field("queued_turn", &T::queued_turn), field("queued_asking", &T::queued_asking),
                         field("deadlocks_avoided", &T::rings), field("asking_us", &T::asking_us),
                         field("own_us", &T::own_us), field("serving_us", &T::serving_us),
                         field("over_share", &T::over_share), field("rollbacks", &T::taken_back),
                         field("doubts_broken", &T::doubts_broken), field("blocks_refused", &T::blocks_refused),
                         field("blocks_left_out", &T::blocks_left_out), field("thin_uplink", &T::thin_uplink));
}

constexpr auto fields(Of<GroupCounters>) {
  return all_counters<GroupCounters>(field("rounds", &GroupCounters::rounds),
                                     field("rounds_whole", &GroupCounters::rounds_whole));
}

constexpr auto fields(Of<UpdateCounters>) {
  using T = UpdateCounters;
  return all_counters<T>(field("entries", &T::entries), field("payloads", &T::payloads), field("behind", &T::behind),
                         field("made", &T::made), field("short_splits", &T::short_splits),
                         field("long_splits", &T::long_splits), field("states_adopted", &T::states_adopted),
                         field("audits_failed", &T::audits_failed), field("payloads_refused", &T::payloads_refused),
                         field("pulls", &T::pulls), field("early", &T::early), field("buckets", &T::buckets),
                         field("plan_since", &T::plan_since), field("plans_refused", &T::plans_refused),
                         field("frames_saved", &T::frames_saved), field("entries_refused", &T::entries_refused),
                         field("blocks_refused", &T::blocks_refused), field("heads_refused", &T::heads_refused));
}

constexpr auto fields(Of<LinkCounters>) {
  return all_counters<LinkCounters>(field("open", &LinkCounters::open), field("refused", &LinkCounters::refused),
                                    field("cut", &LinkCounters::cut), field("strangers", &LinkCounters::strangers));
}

constexpr auto fields(Of<FrameTraffic>) {
  using T = FrameTraffic;
  return all_counters<T>(field("sent", &T::sent), field("received", &T::received), field("dropped", &T::dropped),
                         field("sends_failed", &T::sends_failed));
}

constexpr auto fields(Of<FramesRefused>) {
  using T = FramesRefused;
  return all_counters<T>(field("wrong_parts", &T::wrong_parts), field("too_short", &T::too_short),
                         field("too_long", &T::too_long), field("bad_magic", &T::bad_magic),
                         field("wrong_version", &T::wrong_version), field("bad_checksum", &T::bad_checksum),
                         field("malformed", &T::malformed), field("unknown_message", &T::unknown_message),
                         field("out_of_range", &T::out_of_range), field("wrong_channel", &T::wrong_channel),
                         field("payload_mismatch", &T::payload_mismatch), field("wrong_sender", &T::wrong_sender),
                         field("other_swarm", &T::other_swarm));
}

constexpr auto fields(Of<JoinsAnswered>) {
  return all_counters<JoinsAnswered>(field("accepted", &JoinsAnswered::accepted),
                                     field("refused", &JoinsAnswered::refused),
                                     field("dropped", &JoinsAnswered::dropped), field("older", &JoinsAnswered::older));
}

constexpr auto fields(Of<ModelGiven>) {
  return all_counters<ModelGiven>(field("blocks", &ModelGiven::blocks), field("bytes", &ModelGiven::bytes));
}

constexpr auto fields(Of<MembershipCounters>) {
  using T = MembershipCounters;
  return all_counters<T>(field("probes", &T::probes), field("probes_failed", &T::probes_failed),
                         field("refutations", &T::refutations), field("false_suspicions", &T::false_suspicions),
                         field("updates_refused", &T::updates_refused), field("records_forged", &T::records_forged),
                         field("identity_clashes", &T::identity_clashes), field("table_full", &T::table_full),
                         field("stalls", &T::stalls));
}

constexpr auto fields(Of<StepBreakdown>) {
  using T = StepBreakdown;
  return std::tuple(field("forward_ms", &T::forward_ms), field("backward_ms", &T::backward_ms),
                    field("other_ms", &T::other_ms), field("encode_ms", &T::encode_ms),
                    field("exposed_ms", &T::exposed_ms), field("jobs_ms", &T::jobs_ms),
                    field("select_ms", &T::select_ms));
}

constexpr const char* name(Of<Started>) { return "start"; }
constexpr auto fields(Of<Started>) {
  using T = Started;
  return std::tuple(field("name", &T::name), field("peer", &T::peer), field("endpoint", &T::endpoint),
                    field("generation", &T::generation));
}

constexpr const char* name(Of<DataLoaded>) { return "data"; }
constexpr auto fields(Of<DataLoaded>) {
  return std::tuple(field("labels", &DataLoaded::labels), field("samples", &DataLoaded::samples));
}

constexpr const char* name(Of<Joined>) { return "joined"; }
constexpr auto fields(Of<Joined>) {
  using T = Joined;
  return std::tuple(field("how", &T::how), field("steps", &T::steps), field("round", &T::round),
                    field("seconds", &T::seconds), field("peers", &T::peers), field("params", &T::params),
                    field("data", &T::data));
}

constexpr const char* name(Of<ModelFetched>) { return "fetched"; }
constexpr auto fields(Of<ModelFetched>) {
  return std::tuple(field("bytes", &ModelFetched::bytes), field("seconds", &ModelFetched::seconds));
}

constexpr const char* name(Of<ExchangeEnded>) { return "exchange"; }
constexpr auto fields(Of<ExchangeEnded>) {
  using T = ExchangeEnded;
  return std::tuple(field("peer", &T::peer), field("name", &T::name), field("initiated", &T::initiated),
                    field("outcome", &T::outcome), field("ms", &T::ms), field("blocks", &T::blocks),
                    field("blocks_total", &T::blocks_total), field("bytes_out", &T::bytes_out),
                    field("bytes_in", &T::bytes_in), field("distance", &T::distance), field("scale", &T::scale),
                    field("steps", &T::steps));
}

constexpr auto fields(Of<ExchangesWith>) {
  using T = ExchangesWith;
  return std::tuple(field("peer", &T::peer), field("done", &T::done), field("late", &T::late),
                    field("failed", &T::failed), field("busy", &T::busy));
}

constexpr const char* name(Of<ExchangesSummed>) { return "exchanges"; }
constexpr auto fields(Of<ExchangesSummed>) {
  using T = ExchangesSummed;
  return std::tuple(field("seconds", &T::seconds), field("done", &T::done), field("late", &T::late),
                    field("failed", &T::failed), field("busy", &T::busy), field("initiated", &T::initiated),
                    field("clipped", &T::clipped), field("ms", &T::ms), field("ms_max", &T::ms_max),
                    field("blocks", &T::blocks), field("blocks_total", &T::blocks_total),
                    field("bytes_out", &T::bytes_out), field("bytes_in", &T::bytes_in), field("distance", &T::distance),
                    field("steps", &T::steps), field("with", &T::with));
}

constexpr const char* name(Of<AgentStatus>) { return "status"; }
constexpr auto fields(Of<AgentStatus>) {
  using T = AgentStatus;
  return std::tuple(field("phase", &T::phase), field("steps", &T::steps), field("steps_taken", &T::steps_taken),
                    field("swarm_steps", &T::swarm_steps), field("stop_after", &T::stop_after),
                    field("round", &T::round), field("samples", &T::samples), field("loss", &T::loss),
                    field("first_loss", &T::first_loss), field("rounds_diverging", &T::rounds_diverging),
                    field("accuracy", &T::accuracy), field("distance", &T::distance),
                    field("swarm_distance", &T::swarm_distance), field("spread", &T::spread), field("peers", &T::peers),
                    field("learning_rate", &T::learning_rate), field("steps_per_s", &T::steps_per_s),
                    field("threads", &T::threads), field("step", &T::step), field("exchanges", &T::exchanges),
                    field("left_out_last", &T::left_out_last, Written::kUnlessEmpty), field("blocks", &T::blocks),
                    field("pairs", &T::pairs), field("drift", &T::drift), field("doubts_parked", &T::doubts_parked),
                    field("group", &T::group), field("updates", &T::updates),
                    field("log_heads", &T::log_heads, Written::kUnlessEmpty), field("residual_norm", &T::held_back),
                    field("refused_last", &T::refused_last, Written::kUnlessEmpty), field("bytes_sent", &T::bytes_sent),
                    field("bytes_received", &T::bytes_received), field("sent_a_round", &T::sent_a_round),
                    field("sent_last_round", &T::sent_last_round), field("links", &T::links),
                    field("frames", &T::frames), field("frames_refused", &T::frames_refused), field("joins", &T::joins),
                    field("proposals_refused", &T::proposals_refused), field("given", &T::given),
                    field("membership", &T::membership), field("metrics_lines_lost", &T::metrics_lines_lost),
                    field("metrics_lost_last", &T::metrics_lost_last, Written::kUnlessEmpty));
}

constexpr const char* name(Of<Evaluated>) { return "evaluate"; }
constexpr auto fields(Of<Evaluated>) {
  using T = Evaluated;
  return std::tuple(field("steps", &T::steps), field("accuracy", &T::accuracy), field("loss", &T::loss));
}

constexpr const char* name(Of<MemberChanged>) { return "member"; }
constexpr auto fields(Of<MemberChanged>) {
  using T = MemberChanged;
  return std::tuple(field("peer", &T::peer), field("name", &T::name), field("change", &T::change),
                    field("address", &T::address));
}

constexpr const char* name(Of<CheckpointSaved>) { return "checkpoint"; }
constexpr auto fields(Of<CheckpointSaved>) {
  using T = CheckpointSaved;
  return std::tuple(field("steps", &T::steps), field("file", &T::file, Written::kUnlessEmpty), field("ms", &T::ms),
                    field("error", &T::error, Written::kUnlessEmpty));
}

constexpr const char* name(Of<BecameSick>) { return "sick"; }
constexpr auto fields(Of<BecameSick>) {
  return std::tuple(field("steps", &BecameSick::steps), field("reason", &BecameSick::reason));
}

constexpr const char* name(Of<Finished>) { return "finish"; }
constexpr auto fields(Of<Finished>) {
  return std::tuple_cat(std::tuple(field("reason", &Finished::reason), field("settled", &Finished::settled)),
                        fields(Of<AgentStatus>{}));
}

// Calls `use(field)` for each row of T's table, in its order.
template <typename T, typename Use>
constexpr void for_each_field(const Use& use) {
  std::apply([&](const auto&... each) { (use(each), ...); }, fields(Of<T>{}));
}

// Types that are an object of their own on a line, with a table of their own.
template <typename T>
concept HasFields = requires { fields(Of<T>{}); };

}  // namespace starling::event_fields
