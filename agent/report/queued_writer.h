// Text for a reader, written by a thread of its own: a reader that stands still (a stopped terminal, a full pipe, a
// hanging disk) keeps nobody waiting. What finds no room is dropped and counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace starling {

class QueuedWriter {
 public:
  // Writes one text, called on the writing thread alone; may block. Returns empty, or why the text is lost. What it
  // refers to has to stay valid as long as the process: where it blocks, the thread outlives the object.
  using Write = std::function<std::string(const std::string& text)>;

  // At most `bytes_max` wait. The thread blocks all signals, so no limit and no terminal ends or stops the process.
  explicit QueuedWriter(Write write, size_t bytes_max = size_t{1} << 20);
  ~QueuedWriter();  // waits for what is queued, at most two seconds
  QueuedWriter(const QueuedWriter&) = delete;
  QueuedWriter& operator=(const QueuedWriter&) = delete;

  // From any thread; never waits. False: there is no room, and the text is lost.
  bool push(std::string text);
  size_t waiting() const;                             // texts
  bool flush(std::chrono::milliseconds limit) const;  // false: something still waits then
  uint64_t lost() const;                              // texts that found no room, or that `write` lost
  std::string lost_because() const;                   // of the last of them; empty: none was

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

// A Write for a descriptor, which it does not own. Waits where the descriptor does not block.
QueuedWriter::Write to_descriptor(int fd);

}  // namespace starling
