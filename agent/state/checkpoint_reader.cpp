// The reading half of checkpoints. The file may be damaged in any way; nothing is used before it is checked.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/state/checkpoint.h"
#include "agent/state/checkpoint_format.h"
#include "agent/state/spare_descriptors.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

using namespace checkpoint_format;

// Only this program writes here and it never shortens a file, so the pages stay readable while mapped.
class MappedFile {
 public:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  ~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_;
  size_t size_;
};

std::shared_ptr<const MappedFile> map_file(const std::string& path, std::string* problem) {
  const int fd =
      open_with_spare([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (fd < 0) {
    *problem = std::string("cannot be opened: ") + std::strerror(errno);
    return nullptr;
  }
  struct stat info;
  void* data = MAP_FAILED;
  const bool is_file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = is_file ? static_cast<size_t>(info.st_size) : 0;
  if (!is_file) {
    *problem = "not a regular file";
  } else if (size < kHeaderBytes + sizeof(Footer)) {
    *problem = "cut short: " + std::to_string(size) + " bytes, less than any checkpoint";
  } else if (data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0); data == MAP_FAILED) {
    *problem = std::string("cannot be mapped: ") + std::strerror(errno);
  }
  ::close(fd);
  if (data == MAP_FAILED) return nullptr;
  return std::make_shared<const MappedFile>(static_cast<const std::byte*>(data), size);
}

// Empty: the sizes in the header add up to exactly this file.
std::string check_sizes(const Header& header, uint64_t file_bytes) {
  const uint64_t most = file_bytes;  // no part can be larger than the file, so no sum below overflows
  for (const uint64_t part : {header.params, header.momentum, header.trainer_state_bytes,
                              header.codec_states_bytes, header.blocks}) {
    if (part > most) return "damaged: its header names a part larger than the file";
  }
  const uint64_t needed = kHeaderBytes + (header.params + header.momentum) * sizeof(float) +
                          header.trainer_state_bytes + header.codec_states_bytes +
                          header.blocks * kHashBytes + sizeof(Footer);
  if (header.blocks != block_count(header.params) || needed != file_bytes) {
    return "damaged: its header asks for " + std::to_string(needed) + " bytes, the file has " +
           std::to_string(file_bytes);
  }
  return "";
}

std::string check_structure(std::span<const std::byte> bytes, Header* header, Footer* footer) {
  std::memcpy(header, bytes.data(), sizeof *header);
  std::memcpy(footer, bytes.data() + bytes.size() - sizeof *footer, sizeof *footer);
  if (header->magic != kMagic) return "not a checkpoint: wrong magic at its start";
  if (footer->magic != kEndMagic) return "cut short or damaged: no end mark";
  if (footer->file_bytes != bytes.size()) {
    return "cut short or damaged: it was written with " + std::to_string(footer->file_bytes) +
           " bytes and has " + std::to_string(bytes.size());
  }
  if (header->version != kVersion || header->header_bytes != kHeaderBytes) {
    return "format version " + std::to_string(header->version) + ", this program reads " +
           std::to_string(kVersion);
  }
  return check_sizes(*header, bytes.size());
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
  loaded.content.meta = {header.swarm_id, header.round, header.steps, header.samples, header.generation};
  loaded.content.params = take_floats(header.params);
  loaded.content.momentum = take_floats(header.momentum);
  loaded.content.trainer_state = take(header.trainer_state_bytes);
  loaded.content.codec_states = take(header.codec_states_bytes);
  loaded.hashes = take(header.blocks * kHashBytes);
  std::memcpy(&loaded.snapshot, footer.digest.data(), sizeof loaded.snapshot);
  loaded.snapshot = std::max<uint64_t>(loaded.snapshot, 1);
  return loaded;
}

class MappedModel final : public ModelFile {
 public:
  explicit MappedModel(const LoadedCheckpoint& checkpoint)
      : file_(checkpoint.file),
        params_(std::as_bytes(checkpoint.content.params)),
        snapshot_(checkpoint.snapshot),
        round_(checkpoint.content.meta.round),
        steps_(checkpoint.content.meta.steps),
        root_(blake2b_256(checkpoint.hashes)),
        hashes_(checkpoint.hashes.size() / kHashBytes) {
    if (!hashes_.empty()) std::memcpy(hashes_.data(), checkpoint.hashes.data(), checkpoint.hashes.size());
  }

  uint64_t snapshot() const override { return snapshot_; }
  uint64_t round() const override { return round_; }
  uint64_t steps() const override { return steps_; }
  uint64_t total_bytes() const override { return params_.size(); }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }

  SharedBytes block(uint32_t index) const override {
    STARLING_CHECK(index < hashes_.size());
    const size_t first = size_t{index} * kTransferBlockBytes;
    return {file_, params_.data() + first, std::min(kTransferBlockBytes, params_.size() - first)};
  }

 private:
  std::shared_ptr<const void> file_;
  std::span<const std::byte> params_;
  uint64_t snapshot_, round_, steps_;
  std::array<uint8_t, 32> root_;
  std::vector<std::array<uint8_t, 16>> hashes_;
};

}  // namespace

std::optional<LoadedCheckpoint> read_checkpoint(const std::string& path, Verify verify,
                                                std::string* problem) {
  const std::shared_ptr<const MappedFile> file = map_file(path, problem);
  if (file == nullptr) return std::nullopt;
  const std::span<const std::byte> bytes = file->bytes();
  Header header;
  Footer footer;
  *problem = check_structure(bytes, &header, &footer);
  if (problem->empty() && verify == Verify::kDigest &&
      blake2b_256(bytes.first(bytes.size() - kDigestOffsetFromEnd)) != footer.digest) {
    *problem = "damaged: its checksum does not match its content";
  }
  if (!problem->empty()) return std::nullopt;
  LoadedCheckpoint loaded = view_parts(bytes, header, footer);
  loaded.path = path;
  loaded.file = file;
  return loaded;
}

std::shared_ptr<const ModelFile> make_model_file(const LoadedCheckpoint& checkpoint) {
  return std::make_shared<const MappedModel>(checkpoint);
}

}  // namespace starling
