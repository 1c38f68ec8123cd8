// What an agent tells people and programs: one JSON line per event in a file, one readable line per round in the log.
// Lines of metrics.jsonl ("t" is wall-clock seconds since 1970, fractions allowed; unknown fields may appear):
//   {"t","event":"start","name","peer","endpoint","generation"}
//   {"t","event":"data","labels":[..],"samples"}                       (when the data is loaded)
//   {"t","event":"joined","how":"genesis|fetched|resumed|alone","steps","round","seconds","peers","params"}
//   {"t","event":"fetched","bytes","seconds"}                          (the model, from living donors)
//   {"t","event":"exchange","peer","name","initiated","outcome":"done|late|failed|busy","ms","blocks","blocks_total",
//         "bytes_out","bytes_in","distance","scale","steps"}           ("peer" is the hex id of the partner)
//   {"t","event":"status","phase","steps","round","samples","loss","accuracy","distance","peers","learning_rate",
//         "steps_per_s","exchanges":{"done","late","failed"},"blocks":{..},"bytes_sent","bytes_received"}
//                                                                    (about once a second; "blocks" since the start:
//         {"due","counted","old","late","missing","dead","refused","injected","averages_due","averages_counted",
//         "ignored_messages"}, as gossip/exchange/exchange.h says)
//   {"t","event":"evaluate","steps","accuracy","loss"}
//   {"t","event":"member","peer","name","change":"joined|suspected|alive|died|left|restarted"}
//   {"t","event":"checkpoint","steps","file","ms","error"}             ("error" only when it failed)
//   {"t","event":"sick","steps","reason"}                              (NaN loss: stopped sharing, back to the last
// good state)
//   {"t","event":"finish","reason":"stop_after|signal","steps","round","loss","accuracy","distance",
//         "exchanges":{..},"bytes_sent","bytes_received"}              (the last line of an orderly end)
#pragma once

#include <cstdint>
#include <string>

namespace starling {

struct BlockTally;

// The object of "blocks".
std::string print_blocks_json(const BlockTally& tally);

class MetricsFile {
 public:
  // Appends to `path`, a regular file (made with mode 0600); an empty path writes nothing. Throws std::runtime_error
  // for anything else: a symbolic link is not followed, and a FIFO not waited for.
  explicit MetricsFile(const std::string& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // `json_fields` is the inside of an object, without braces: "\"event\":\"status\",...". One write per line, so a
  // reader that follows the file never sees half a line of a living agent.
  void write(const std::string& json_fields);
  uint64_t failed_writes() const { return failed_writes_; }   // a full disk loses lines, not the agent

 private:
  int fd_ = -1;
  uint64_t failed_writes_ = 0;
};

}  // namespace starling
