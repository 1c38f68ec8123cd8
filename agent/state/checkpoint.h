// An agent's states on disk. Each is one file, complete or absent, checksummed; the last few are kept. The
// same file is served to newcomers, block by block, straight from its mapping.
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
  uint64_t swarm_id = 0;      // of the settings: a state of another swarm is never loaded
  uint64_t round = 0, steps = 0, samples = 0;
  uint64_t generation = 0;    // of the process that wrote it
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
  std::span<const std::byte> hashes;        // of the transfer blocks
  uint64_t snapshot = 0;  // from the file's digest: differs where the content does; never 0
  std::string path;
  std::shared_ptr<const void> file;         // keeps the mapping that all spans point into
};

enum class Verify { kDigest, kStructure };  // kStructure: sizes and magics only, for a file just written

// Maps the file. nullopt: `problem` says what is wrong with it.
std::optional<LoadedCheckpoint> read_checkpoint(const std::string& path, Verify verify, std::string* problem);

// The params of a loaded file, as donors serve them. The file stays mapped while anything refers to it.
std::shared_ptr<const ModelFile> make_model_file(const LoadedCheckpoint& checkpoint);

struct [[nodiscard]] SaveResult {
  std::string path;
  std::string error;  // empty: saved. Else what was tried and what to do; the older files are untouched
  bool ok() const { return error.empty(); }
};

// Not thread-safe: one call at a time. REQUIRES: no other process writes to the folder (DirectoryLock).
class CheckpointStore {
 public:
  // Makes the folder (0700) if it is missing and removes half-written files. `keep` >= 1 files of a swarm stay, and all
  // of other swarms.
  // Throws std::runtime_error if the folder cannot be used.
  CheckpointStore(const std::string& folder, uint32_t keep, std::unique_ptr<FileOps> files = make_file_ops());

  // Durable when it returns ok: written beside, synced, renamed. Copies nothing.
  SaveResult save(const CheckpointContent& content);

  const std::string& folder() const { return folder_; }

  // The newest file that is whole and of this swarm (nullopt: of any swarm). `report` hears about every file
  // passed over: "PATH: why".
  using Report = std::function<void(const std::string& skipped)>;
  // `damaged`, where given: how many files were passed over that are not another swarm's.
  std::optional<LoadedCheckpoint> load_newest(std::optional<uint64_t> swarm_id, const Report& report,
                                              size_t* damaged = nullptr) const;

 private:
  std::string write_file(const std::string& path, const CheckpointContent& content, uint64_t total_bytes);
  void remove_old(uint64_t swarm_id);

  std::string folder_;
  uint32_t keep_;
  std::unique_ptr<FileOps> files_;
  uint64_t next_number_ = 1;  // grows with every attempt: the newest file has the largest
};

// Whether there are checkpoints in the folder, but none of this swarm. Damaged files do not count.
bool holds_only_other_swarms(const std::string& folder, uint64_t swarm_id);

}  // namespace starling
