// .pt as torch.save writes it: a zip archive whose pickle names the other entries. torch.load(weights_only=True) takes
// an OrderedDict, its attributes, and tensors that are built from storages of numbers.
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "agent/state/tensor_file.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kArchiveMax = std::numeric_limits<uint32_t>::max();  // without zip's 64-bit extension
constexpr uint64_t kEntriesMax = std::numeric_limits<uint16_t>::max();
constexpr uint64_t kEntryOverheadMax = 1024;  // of an entry: both headers, its padding, and its part of the pickle
constexpr uint64_t kContentAlign = 64;
constexpr uint16_t kNewYear1980 = 1 << 5 | 1;  // zip's first day: equal models give equal files

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
    table[byte] = value;
  }
  return table;
}

uint32_t crc32(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

class Archive {
 public:
  explicit Archive(const PutBytes& put) : put_(put) {}

  void add(const std::string& name, std::span<const std::byte> content) {
    const uint64_t offset = written_, head = 30 + name.size() + 4;
    const uint64_t padding = (kContentAlign - (offset + head) % kContentAlign) % kContentAlign;
    std::string about;            // that both headers share
    append<uint16_t>(about, 10);  // version of zip that extracts it
    append<uint16_t>(about, 0);   // flags
    append<uint16_t>(about, 0);   // stored
    append<uint16_t>(about, 0);   // midnight
    append(about, kNewYear1980);
    append(about, crc32(content));
    append(about, static_cast<uint32_t>(content.size()));  // packed
    append(about, static_cast<uint32_t>(content.size()));
    append(about, static_cast<uint16_t>(name.size()));
    std::string local = "PK\3\4" + about;
    append(local, static_cast<uint16_t>(4 + padding));
    local += name + "FB";  // the field of padding, as PyTorch writes it
    append(local, static_cast<uint16_t>(padding));
    local.append(padding, 'Z');
    put(local);
    put_bytes(content);
    directory_ += "PK\1\2";
    append<uint16_t>(directory_, 10);  // version of zip that made it
    directory_ += about;
    directory_.append(12, '\0');  // no field, no comment, one disk, no attributes
    append(directory_, static_cast<uint32_t>(offset));
    directory_ += name;
    ++entries_;
  }

  void finish() {
    const uint64_t begin = written_;
    put(directory_);
    std::string end("PK\5\6\0\0\0\0", 8);
    append(end, entries_);
    append(end, entries_);
    append(end, static_cast<uint32_t>(directory_.size()));
    append(end, static_cast<uint32_t>(begin));
    append<uint16_t>(end, 0);
    put(end);
    STARLING_CHECK(written_ <= kArchiveMax);
  }

 private:
  void put(std::string_view bytes) { put_bytes(std::as_bytes(std::span(bytes))); }
  void put_bytes(std::span<const std::byte> bytes) {
    put_(bytes);
    written_ += bytes.size();
  }

  const PutBytes& put_;
  uint64_t written_ = 0;
  uint16_t entries_ = 0;
  std::string directory_;
};

// Protocol 2, with the operations that torch.load(weights_only=True) knows.
class Pickle {
 public:
  void text(const std::string& text) {
    bytes_ += 'X';
    append(bytes_, static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }

  // A tensor of the entry `key`, as torch._utils._rebuild_tensor_v2 builds it.
  void tensor(const NamedTensor& tensor, const std::string& key) {
    bytes_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    bytes_ += "ctorch\nFloatStorage\n";
    text(key);
    text("cpu");
    number(tensor.values.size());
    bytes_ += "tQ";  // the storage
    number(0);       // begins there
    std::vector<size_t> strides(tensor.shape.size());
    size_t stride = 1;
    for (size_t i = strides.size(); i-- > 0; stride *= static_cast<size_t>(tensor.shape[i])) strides[i] = stride;
    bytes_ += '(';
    for (const int64_t side : tensor.shape) number(static_cast<size_t>(side));
    bytes_ += "t(";
    for (const size_t one : strides) number(one);
    bytes_ += "t\x89";  // requires no gradient
    empty_dict();       // has no hooks
    bytes_ += "tR";
  }

  void empty_dict() { bytes_ += "ccollections\nOrderedDict\n)R"; }
  void operations(std::string_view operations) { bytes_ += operations; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  void number(size_t value) {
    bytes_ += 'J';
    append(bytes_, static_cast<int32_t>(value));
  }

  std::string bytes_ = "\x80\2";
};

Pickle pickled(const TensorFile& file) {
  Pickle pickle;
  pickle.empty_dict();
  pickle.operations("(");
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    pickle.text(file.tensors[i].name);
    pickle.tensor(file.tensors[i], std::to_string(i));
  }
  pickle.operations("u}(");  // its items; then its attributes
  pickle.text("metadata");
  pickle.operations("}(");
  for (const auto& [name, text] : file.metadata) {
    pickle.text(name);
    pickle.text(text);
  }
  pickle.operations("uub.");
  return pickle;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

void put_pt(const TensorFile& file, const PutBytes& put) {
  uint64_t bytes = 0;
  for (const NamedTensor& tensor : file.tensors) bytes += tensor.values.size_bytes() + kEntryOverheadMax;
  if (bytes > kArchiveMax - (1 << 20) || file.tensors.size() + 3 > kEntriesMax) {
    throw std::runtime_error("the model is too large for a .pt file, which holds 4 GiB; name a .safetensors file");
  }
  Archive archive(put);
  archive.add("archive/data.pkl", pickled(file).bytes());
  archive.add("archive/byteorder", bytes_of("little"));
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    archive.add("archive/data/" + std::to_string(i), std::as_bytes(file.tensors[i].values));
  }
  archive.add("archive/version", bytes_of("3\n"));
  archive.finish();
}

}  // namespace starling
