// An agent's states on disk. Each is one file, complete or absent, checksummed; the last few are kept. The
// same file is served to newcomers, block by block.
//
// Layout, little-endian, version 1:
//   0      magic "STARCKPT", u32 version, u32 header size (4096)
//   16     u64 swarm id, round, steps, samples, generation
//   56     u64 params, momentum (elements), trainer state, codec states (bytes), transfer blocks (count)
//   4096   params (f32), momentum (f32), trainer state, codec states,
//          XXH3-128 of each kTransferBlockBytes of the params (16 bytes each)
//   end    u64 size of the file, BLAKE2b-256 of all bytes before it, magic "STARCEND"
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "agent/state/checkpoint_lock.h"
#include "agent/state/file_ops.h"
#include "bootstrap/model_file.h"

namespace starling {

struct CheckpointMeta {
  uint64_t swarm_id = 0;  // of the settings: a state of another swarm is never loaded
  uint64_t round = 0, steps = 0, samples = 0;
  uint64_t generation = 0;  // of the process that wrote it
  bool alone = false;       // no other member lived
  bool operator==(const CheckpointMeta&) const = default;
};

// Borrowed: what is saved, or views into a loaded file.
struct CheckpointContent {
  CheckpointMeta meta;
  std::span<const float> params, momentum;  // host memory; momentum may be empty
  std::span<const std::byte> trainer_state;
  std::span<const std::byte> codec_states;  // opaque here
};

struct LoadedCheckpoint {
  CheckpointContent content;
  std::span<const std::byte> hashes;  // of the transfer blocks
  uint64_t snapshot = 0;              // from the file's digest: differs where the content does; never 0
  std::string path;
  std::shared_ptr<const void> file;  // keeps the memory that all spans point into
};

// Reads the file whole, and checks its digest. nullopt: `problem` says what is wrong with it.
std::optional<LoadedCheckpoint> read_checkpoint(const std::string& path, std::string* problem);

// nullopt: the file is damaged. Only its sizes and magics are looked at.
std::optional<CheckpointMeta> read_checkpoint_meta(const std::string& path);

// The params of a file, as donors serve them: each block is read, and checked, when it is asked for. The file stays
// open, and so readable when it was removed. Null: `problem` says what is wrong with it; its digest is not looked at.
std::shared_ptr<const ModelFile> open_model_file(const std::string& path, std::string* problem);

// The newest file of the folder that is whole and of this swarm (nullopt: of any swarm). Changes nothing there, so an
// agent may write to the folder and prune it meanwhile. `report` hears about every file passed over: "PATH: why".
// `damaged`, where given: how many files were passed over that are not another swarm's.
using SkipReport = std::function<void(const std::string& skipped)>;
std::optional<LoadedCheckpoint> load_newest_checkpoint(const std::string& folder, std::optional<uint64_t> swarm_id,
                                                       const SkipReport& report, size_t* damaged = nullptr);

struct [[nodiscard]] SaveResult {
  std::string path;
  std::string error;  // empty: saved. Else what was tried and what to do; the older files are untouched
  bool ok() const { return error.empty(); }
};

// Not thread-safe: one call at a time. REQUIRES: no other process writes to the folder (DirectoryLock).
class CheckpointStore {
 public:
  // Makes the folder (0700) if it is missing and removes half-written files. `keep` >= 1 files of a swarm stay, its
  // newest that was not made alone, and all of other swarms.
  // Throws std::runtime_error if the folder cannot be used.
  CheckpointStore(const std::string& folder, uint32_t keep, std::unique_ptr<FileOps> files = make_file_ops());

  // Durable when it returns ok: written beside, synced, renamed. Copies nothing.
  SaveResult save(const CheckpointContent& content);

  const std::string& folder() const { return folder_; }

  // As load_newest_checkpoint().
  using Report = SkipReport;
  std::optional<LoadedCheckpoint> load_newest(std::optional<uint64_t> swarm_id, const Report& report,
                                              size_t* damaged = nullptr) const {
    return load_newest_checkpoint(folder_, swarm_id, report, damaged);
  }

 private:
  std::string write_file(const std::string& path, const CheckpointContent& content, uint64_t total_bytes);
  void remove_old(uint64_t swarm_id);

  std::string folder_;
  uint32_t keep_;
  std::unique_ptr<FileOps> files_;
  uint64_t next_number_ = 1;  // grows with every attempt: the newest file has the largest
};

bool holds_checkpoint(const std::string& folder);                                 // any, whole or damaged
std::optional<CheckpointMeta> newest_checkpoint_meta(const std::string& folder);  // of those that can be read

// Whether there are checkpoints in the folder, but none of this swarm. Damaged files do not count.
bool holds_only_other_swarms(const std::string& folder, uint64_t swarm_id);

}  // namespace starling
