#include "agent/state/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/report/format.h"
#include "agent/report/resource_limits.h"
#include "agent/state/checkpoint_format.h"
#include "agent/state/private_file.h"
#include "agent/state/spare_descriptors.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

using namespace checkpoint_format;
namespace fs = std::filesystem;

constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kSuffix = ".ckpt";
constexpr const char* kUnfinished = ".tmp";

struct Entry {
  uint64_t number;
  std::string path;
};

// checkpoint-00000042-step-1200.ckpt -> 42; 0 for any other name.
uint64_t number_of(const std::string& name, const std::string& suffix) {
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return 0;
  uint64_t number = 0;
  return std::sscanf(name.c_str() + std::strlen(kPrefix), "%18" SCNu64, &number) == 1 ? number : 0;
}

// Newest first.
std::vector<Entry> list(const std::string& folder, const std::string& suffix) {
  std::vector<Entry> entries;
  std::error_code error;
  fs::directory_iterator it;
  (void)open_with_spare([&] {
    it = fs::directory_iterator(folder, error);
    errno = error.value();
    return error ? -1 : 0;
  });
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const uint64_t number = number_of(it->path().filename().string(), suffix);
    if (number != 0) entries.push_back({number, it->path().string()});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.number > b.number; });
  return entries;
}

uint64_t file_bytes(const CheckpointContent& content) {
  return kHeaderBytes + content.params.size_bytes() + content.momentum.size_bytes() + content.trainer_state.size() +
         content.codec_states.size() + block_count(content.params.size()) * kHashBytes + sizeof(Footer);
}

// Writes and digests in one pass, in pieces that stay in the cache for both. After the first error it does nothing.
class Writer {
 public:
  Writer(FileOps& files, int fd) : files_(files), fd_(fd) {}

  void put(std::span<const std::byte> bytes) {
    for (size_t at = 0; at < bytes.size() && status_ >= 0; at += kTransferBlockBytes) {
      const auto piece = bytes.subspan(at, std::min(kTransferBlockBytes, bytes.size() - at));
      digest_.update(piece);
      write_raw(piece);
    }
  }

  void write_raw(std::span<const std::byte> bytes) {
    while (!bytes.empty() && status_ >= 0) {
      const int64_t written = files_.write(fd_, bytes.data(), bytes.size());
      if (written <= 0) {
        status_ = written < 0 ? static_cast<int>(written) : -EIO;
        return;
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  std::array<uint8_t, 32> finish_digest() { return digest_.finish(); }
  int status() const { return status_; }  // 0 or a negative errno

 private:
  FileOps& files_;
  int fd_;
  int status_ = 0;
  Blake2b256 digest_;
};

Header make_header(const CheckpointContent& content) {
  const CheckpointMeta& meta = content.meta;
  return {kMagic,
          kVersion,
          kHeaderBytes,
          meta.swarm_id,
          meta.round,
          meta.steps,
          meta.samples,
          meta.generation,
          content.params.size(),
          content.momentum.size(),
          content.trainer_state.size(),
          content.codec_states.size(),
          block_count(content.params.size()),
          meta.alone};
}

void write_content(Writer& writer, const CheckpointContent& content, uint64_t total_bytes) {
  std::array<std::byte, kHeaderBytes> page{};
  const Header header = make_header(content);
  std::memcpy(page.data(), &header, sizeof header);
  writer.put(page);
  std::vector<std::array<uint8_t, kHashBytes>> hashes;
  const std::span<const std::byte> params = std::as_bytes(content.params);
  for (size_t at = 0; at < params.size(); at += kTransferBlockBytes) {
    const auto block = params.subspan(at, std::min(kTransferBlockBytes, params.size() - at));
    hashes.push_back(xxh3_128(block));
    writer.put(block);
  }
  writer.put(std::as_bytes(content.momentum));
  writer.put(content.trainer_state);
  writer.put(content.codec_states);
  writer.put(std::as_bytes(std::span(hashes)));
  Footer footer{total_bytes, {}, kEndMagic};
  writer.put(std::as_bytes(std::span(&footer.file_bytes, 1)));
  footer.digest = writer.finish_digest();
  writer.write_raw(std::as_bytes(std::span(&footer, 1)).subspan(offsetof(Footer, digest)));
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& folder, uint32_t keep, std::unique_ptr<FileOps> files)
    : folder_(folder), keep_(keep), files_(std::move(files)) {
  STARLING_CHECK(keep >= 1);
  std::error_code error;
  const fs::path parent = fs::path(folder_).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  // The model is its owner's alone. A folder that exists keeps its mode.
  if (!error && ::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
  if (error || !fs::is_directory(folder_)) {
    throw std::runtime_error("checkpoint folder " + folder_ + " cannot be used: " +
                             (error ? error.message() : "not a folder") + "; name another one with agent.state");
  }
  for (const Entry& entry : list(folder_, kUnfinished)) {
    files_->remove(entry.path);
    next_number_ = std::max(next_number_, entry.number + 1);
  }
  for (const Entry& entry : list(folder_, kSuffix)) next_number_ = std::max(next_number_, entry.number + 1);
}

SaveResult CheckpointStore::save(const CheckpointContent& content) {
  const uint64_t total_bytes = file_bytes(content);
  std::error_code error_code;
  if (!fs::exists(folder_, error_code)) {
    fs::create_directories(fs::path(folder_).parent_path(), error_code);
    if (::mkdir(folder_.c_str(), 0700) == 0) {
      spdlog::warn("the folder {} was removed, with all checkpoints in it: it is made again. See what removes it",
                   folder_);
    }
  }
  const int64_t free_bytes = files_->free_bytes(folder_);
  if (free_bytes >= 0 && static_cast<uint64_t>(free_bytes) < 2 * total_bytes) {
    return {"", "not saved to " + folder_ + ": " + print_bytes(static_cast<uint64_t>(free_bytes)) +
                    " free on that disk, a checkpoint of " + print_bytes(total_bytes) + " wants twice its size" +
                    "; make room, or name a folder on another disk with --state"};
  }
  const std::string name = fmt::format("{}{:08}-step-{}", kPrefix, next_number_, content.meta.steps);
  ++next_number_;
  const std::string path = (fs::path(folder_) / name).string() + kSuffix;
  std::string error = write_file(path, content, total_bytes);
  if (error.empty()) remove_old(content.meta.swarm_id);
  return {error.empty() ? path : "", std::move(error)};
}

// Empty, or what failed.
std::string CheckpointStore::write_file(const std::string& path, const CheckpointContent& content,
                                        uint64_t total_bytes) {
  const auto failure = replace_file(*files_, path, path + kUnfinished, [&](int fd) {
    Writer writer(*files_, fd);
    write_content(writer, content, total_bytes);
    return writer.status();
  });
  if (!failure) return "";
  return fmt::format("{} {}: {}; {}", failure->doing, failure->path, std::strerror(-failure->status),
                     remedy_of_file(-failure->status, "the state (--state)", total_bytes));
}

// What another swarm left in the folder may be the only copy of its model, so it stays. So does what this swarm made
// together last: an agent alone knows its own data only.
void CheckpointStore::remove_old(uint64_t swarm_id) {
  uint32_t kept = 0;
  bool together = false;  // one is kept
  for (const Entry& entry : list(folder_, kSuffix)) {
    const std::optional<CheckpointMeta> meta = read_checkpoint_meta(entry.path);
    if (meta && meta->swarm_id != swarm_id) continue;
    const bool last_together = meta && !meta->alone && !std::exchange(together, true);
    if (++kept > keep_ && !last_together) files_->remove(entry.path);
  }
}

bool holds_checkpoint(const std::string& folder) { return !list(folder, kSuffix).empty(); }

std::optional<CheckpointMeta> newest_checkpoint_meta(const std::string& folder) {
  for (const Entry& entry : list(folder, kSuffix)) {
    if (const auto meta = read_checkpoint_meta(entry.path)) return meta;
  }
  return std::nullopt;
}

bool holds_only_other_swarms(const std::string& folder, uint64_t swarm_id) {
  bool others = false;
  for (const Entry& entry : list(folder, kSuffix)) {
    const std::optional<CheckpointMeta> meta = read_checkpoint_meta(entry.path);
    if (meta && meta->swarm_id == swarm_id) return false;
    others = others || meta;
  }
  return others;
}

namespace {

// One look at the folder. `gone`: a file that was listed is not there any more.
std::optional<LoadedCheckpoint> look_for_newest(const std::string& folder, std::optional<uint64_t> swarm_id,
                                                const SkipReport& report, size_t* damaged, bool* gone) {
  for (const Entry& entry : list(folder, kSuffix)) {
    std::string problem;
    std::optional<LoadedCheckpoint> loaded = read_checkpoint(entry.path, &problem);
    std::error_code error;
    if (!loaded && !fs::exists(fs::symlink_status(entry.path, error))) {
      *gone = true;
      continue;
    }
    if (loaded && swarm_id && loaded->content.meta.swarm_id != *swarm_id) {
      problem =
          fmt::format("of another swarm (id {:016x}, this one is {:016x})", loaded->content.meta.swarm_id, *swarm_id);
      loaded.reset();
    } else if (!loaded && damaged) {
      ++*damaged;
    }
    if (loaded) return loaded;
    if (report) report(entry.path + ": " + problem);
  }
  return std::nullopt;
}

}  // namespace

std::optional<LoadedCheckpoint> load_newest_checkpoint(const std::string& folder, std::optional<uint64_t> swarm_id,
                                                       const SkipReport& report, size_t* damaged) {
  constexpr int kLooks = 10;  // an agent prunes a file only after a newer one is whole
  for (int look = 1;; ++look) {
    bool gone = false;
    auto loaded = look_for_newest(folder, swarm_id, report, damaged, &gone);
    if (loaded || !gone || look == kLooks) return loaded;
  }
}

}  // namespace starling
