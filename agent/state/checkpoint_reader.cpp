// The reading half of checkpoints. The file may be damaged in any way; nothing is used before it is checked.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/state/checkpoint.h"
#include "agent/state/checkpoint_format.h"
#include "agent/state/spare_descriptors.h"
#include "gossip/limits.h"
#include "gossip/net/file.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

using namespace checkpoint_format;

// Others may shorten or overwrite a file while it is open, which would end a process that had mapped it: it is read.
struct OpenCheckpoint {
  File file;
  size_t size;
  Header header;
  Footer footer;
};

// False: the file ends before that.
bool read_at(const File& file, size_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += static_cast<size_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

template <typename Struct>
std::span<std::byte> bytes_of(Struct& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Empty: the sizes in the header add up to exactly this file.
std::string check_sizes(const Header& header, uint64_t file_bytes) {
  const uint64_t most = file_bytes;  // no part can be larger than the file, so no sum below overflows
  for (const uint64_t part :
       {header.params, header.momentum, header.trainer_state_bytes, header.codec_states_bytes, header.blocks}) {
    if (part > most) return "damaged: its header names a part larger than the file";
  }
  const uint64_t needed = kHeaderBytes + (header.params + header.momentum) * sizeof(float) +
                          header.trainer_state_bytes + header.codec_states_bytes + header.blocks * kHashBytes +
                          sizeof(Footer);
  if (header.blocks != block_count(header.params) || needed != file_bytes) {
    return "damaged: its header asks for " + std::to_string(needed) + " bytes, the file has " +
           std::to_string(file_bytes);
  }
  return "";
}

std::string check_structure(const Header& header, const Footer& footer, size_t size) {
  if (header.magic != kMagic) return "not a checkpoint: wrong magic at its start";
  if (footer.magic != kEndMagic) return "cut short or damaged: no end mark";
  if (footer.file_bytes != size) {
    return "cut short or damaged: it was written with " + std::to_string(footer.file_bytes) + " bytes and has " +
           std::to_string(size);
  }
  if (header.version != kVersion || header.header_bytes != kHeaderBytes) {
    return "format version " + std::to_string(header.version) + ", this program reads " + std::to_string(kVersion);
  }
  return check_sizes(header, size);
}

// Null: `problem` says what is wrong with it.
std::shared_ptr<const OpenCheckpoint> open_checkpoint(const std::string& path, std::string* problem) {
  const int fd = open_with_spare([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (fd < 0) {
    *problem = std::string("cannot be opened: ") + std::strerror(errno);
    return nullptr;
  }
  const std::shared_ptr<OpenCheckpoint> found(new OpenCheckpoint{File(fd), 0, {}, {}});
  struct stat info;
  const bool is_file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  found->size = is_file ? static_cast<size_t>(info.st_size) : 0;
  if (!is_file) {
    *problem = "not a regular file";
  } else if (found->size < kHeaderBytes + sizeof(Footer)) {
    *problem = "cut short: " + std::to_string(found->size) + " bytes, less than any checkpoint";
  } else if (!read_at(found->file, 0, bytes_of(found->header)) ||
             !read_at(found->file, found->size - sizeof(Footer), bytes_of(found->footer))) {
    *problem = std::string("cannot be read: ") + std::strerror(errno);
  } else {
    *problem = check_structure(found->header, found->footer, found->size);
  }
  return problem->empty() ? found : nullptr;
}

CheckpointMeta meta_of(const Header& header) {
  return {header.swarm_id, header.round, header.steps, header.samples, header.generation, header.alone != 0};
}

uint64_t snapshot_of(const Footer& footer) {
  uint64_t snapshot;
  std::memcpy(&snapshot, footer.digest.data(), sizeof snapshot);
  return std::max<uint64_t>(snapshot, 1);
}

LoadedCheckpoint view_parts(std::span<const std::byte> bytes, const Header& header, const Footer& footer) {
  size_t at = kHeaderBytes;
  const auto take = [&](uint64_t size) {
    const auto part = bytes.subspan(at, size);
    at += size;
    return part;
  };
  const auto take_floats = [&](uint64_t count) {
    return std::span(reinterpret_cast<const float*>(take(count * sizeof(float)).data()), count);
  };
  LoadedCheckpoint loaded;
  loaded.content.meta = meta_of(header);
  loaded.content.params = take_floats(header.params);
  loaded.content.momentum = take_floats(header.momentum);
  loaded.content.trainer_state = take(header.trainer_state_bytes);
  loaded.content.codec_states = take(header.codec_states_bytes);
  loaded.hashes = take(header.blocks * kHashBytes);
  loaded.snapshot = snapshot_of(footer);
  return loaded;
}

class ServedFile final : public ModelFile {
 public:
  ServedFile(std::string path, std::shared_ptr<const OpenCheckpoint> opened,
             std::vector<std::array<uint8_t, kHashBytes>> hashes)
      : path_(std::move(path)),
        opened_(std::move(opened)),
        snapshot_(snapshot_of(opened_->footer)),
        root_(blake2b_256(std::as_bytes(std::span(hashes)))),
        hashes_(std::move(hashes)) {}

  uint64_t snapshot() const override { return snapshot_; }
  uint64_t round() const override { return opened_->header.round; }
  uint64_t steps() const override { return opened_->header.steps; }
  uint64_t total_bytes() const override { return opened_->header.params * sizeof(float); }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }

  SharedBytes block(uint32_t index) const override {
    STARLING_CHECK(index < hashes_.size());
    const size_t first = size_t{index} * kTransferBlockBytes;
    const size_t size = std::min<size_t>(kTransferBlockBytes, total_bytes() - first);
    const UnsetBytes bytes(size);
    if (read_at(opened_->file, kHeaderBytes + first, bytes.span()) && xxh3_128(bytes.span()) == hashes_[index]) {
      return bytes.first(size);
    }
    spdlog::warn(
        "the checkpoint {} was changed by another program, or its disk is damaged: it is passed over, and newcomers "
        "get the next one. Look for what writes into that folder",
        path_);
    return {};
  }

 private:
  const std::string path_;
  const std::shared_ptr<const OpenCheckpoint> opened_;
  const uint64_t snapshot_;
  const std::array<uint8_t, 32> root_;
  const std::vector<std::array<uint8_t, kHashBytes>> hashes_;
};

}  // namespace

std::optional<CheckpointMeta> read_checkpoint_meta(const std::string& path) {
  std::string problem;
  const auto opened = open_checkpoint(path, &problem);
  return opened ? std::optional(meta_of(opened->header)) : std::nullopt;
}

std::optional<LoadedCheckpoint> read_checkpoint(const std::string& path, std::string* problem) {
  const auto opened = open_checkpoint(path, problem);
  if (!opened) return std::nullopt;
  const std::shared_ptr<std::byte[]> content(new std::byte[opened->size]);
  const std::span<std::byte> bytes(content.get(), opened->size);
  if (!read_at(opened->file, 0, bytes) || std::memcmp(bytes.data(), &opened->header, sizeof(Header)) != 0) {
    *problem = "changed while it was read";
  } else if (blake2b_256(bytes.first(bytes.size() - kDigestOffsetFromEnd)) != opened->footer.digest) {
    *problem = "damaged: its checksum does not match its content";
  } else {
    LoadedCheckpoint loaded = view_parts(bytes, opened->header, opened->footer);
    loaded.path = path;
    loaded.file = content;
    return loaded;
  }
  return std::nullopt;
}

std::shared_ptr<const ModelFile> open_model_file(const std::string& path, std::string* problem) {
  auto opened = open_checkpoint(path, problem);
  if (!opened) return nullptr;
  const Header& header = opened->header;
  const size_t at = kHeaderBytes + (header.params + header.momentum) * sizeof(float) + header.trainer_state_bytes +
                    header.codec_states_bytes;
  std::vector<std::array<uint8_t, kHashBytes>> hashes(header.blocks);
  if (!read_at(opened->file, at, std::as_writable_bytes(std::span(hashes)))) {
    *problem = "cut short while it was read";
    return nullptr;
  }
  return std::make_shared<const ServedFile>(path, std::move(opened), std::move(hashes));
}

}  // namespace starling
