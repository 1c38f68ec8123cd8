#include "agent/state/tensor_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace starling {
namespace {

// The bytes in one text.
std::string bytes_of(PutTensorFile put_file, const TensorFile& file) {
  std::string bytes;
  put_file(file, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

template <typename T>
T number(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

class TensorFiles : public testing::Test {
 protected:
  TensorFiles() {
    std::iota(values_.begin(), values_.end(), 1.0f);
    folder_ = (std::filesystem::temp_directory_path() / "starling-tensors-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  ~TensorFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const TensorFile& file) const {
    write_tensor_file(folder_ + "/" + name, file);
    return folder_ + "/" + name;
  }
  static LoadedTensors read(const std::string& path) { return read_tensor_file(path); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TensorFile file() const {
    return {{{"fc.weight", {2, 3}, std::span(values_).first(6)}, {"fc.bias", {2}, std::span(values_).last(2)}},
            {{"step", "7"}, {"swarm", "a \"b\""}}};
  }

  std::array<float, 8> values_{};
  std::string folder_;
};

TEST_F(TensorFiles, TheSuffixNamesTheFormat) {
  EXPECT_EQ(tensor_format("a/b.safetensors"), &put_safetensors);
  EXPECT_EQ(tensor_format("b.pt"), &put_pt);
  for (const char* other : {"b", "pt", "b.pth", "b.pt.gz", ""}) EXPECT_EQ(tensor_format(other), nullptr) << other;
}

TEST_F(TensorFiles, SafetensorsAreAHeaderAndTheValues) {
  const std::string bytes = bytes_of(put_safetensors, file());
  const auto size = number<uint64_t>(bytes, 0);
  EXPECT_EQ(size % 8, 0u);
  std::string header = bytes.substr(8, size);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(header, R"({"__metadata__":{"step":"7","swarm":"a \"b\""},)"
                    R"("fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                    R"("fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}})");
  ASSERT_EQ(bytes.size(), 8 + size + 32);
  for (size_t i = 0; i < values_.size(); ++i) EXPECT_EQ(number<float>(bytes, 8 + size + 4 * i), values_[i]);
}

TEST_F(TensorFiles, EntriesOfAPtFileLieOnSixtyFourBytes) {
  const std::string bytes = bytes_of(put_pt, file());
  EXPECT_EQ(bytes, bytes_of(put_pt, file()));
  size_t entries = 0;
  for (size_t at = 0; number<uint32_t>(bytes, at) == 0x04034b50; ++entries) {
    const size_t content = at + 30 + number<uint16_t>(bytes, at + 26) + number<uint16_t>(bytes, at + 28);
    EXPECT_EQ(content % 64, 0u);
    at = content + number<uint32_t>(bytes, at + 18);
  }
  EXPECT_EQ(entries, 5u);
  EXPECT_EQ(number<uint16_t>(bytes, bytes.size() - 12), 5);  // in the directory's end
}

TEST_F(TensorFiles, BothFormatsAreReadAsTheyWereWritten) {
  TensorFile sealed = file();
  sealed.metadata.emplace_back(kDigestKey, values_digest(sealed));
  for (const char* name : {"model.safetensors", "model.pt"}) {
    const LoadedTensors loaded = read(write(name, sealed));
    std::map<std::string, std::string> metadata(loaded.file.metadata.begin(), loaded.file.metadata.end());
    EXPECT_EQ(metadata.size(), 3u) << name;
    EXPECT_EQ(metadata["swarm"], "a \"b\"") << name;
    ASSERT_EQ(loaded.file.tensors.size(), 2u) << name;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(loaded.file.tensors[i].name, sealed.tensors[i].name);
      EXPECT_EQ(loaded.file.tensors[i].shape, sealed.tensors[i].shape);
      EXPECT_TRUE(std::ranges::equal(loaded.file.tensors[i].values, sealed.tensors[i].values)) << name;
    }
  }
}

// Any bit may be wrong, and the file may end anywhere. With a digest no value is read that was not written.
TEST_F(TensorFiles, DamageIsRefusedOrChangesNoValue) {
  TensorFile sealed = file();
  sealed.metadata.emplace_back(kDigestKey, values_digest(sealed));
  for (const char* name : {"model.safetensors", "model.pt"}) {
    const std::string path = write(name, sealed), whole = content(path);
    size_t refused = 0;
    const auto look = [&](const std::string& bytes) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
      try {
        const LoadedTensors loaded = read(path);
        ASSERT_LE(loaded.values->size(), bytes.size() / sizeof(float));
        if (metadata_of(loaded.file, kDigestKey).empty()) return;  // nothing is promised without one
        EXPECT_TRUE(std::ranges::equal(*loaded.values, values_)) << name;
      } catch (const std::runtime_error& error) {
        ++refused;
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    };
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
      look(bytes);
    }
    for (size_t size = 0; size < whole.size(); ++size) look(whole.substr(0, size));
    EXPECT_GT(refused, whole.size()) << name;
  }
}

TEST_F(TensorFiles, ForeignHeadersClaimNothingBeyondTheFile) {
  for (const auto& [header, cause] : std::vector<std::pair<std::string, std::string>>{
           {R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", "F32"},
           {R"({"a":{"dtype":"F32","shape":[65536,65536,65536,65536],"data_offsets":[0,0]}})", "larger than the file"},
           {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "no shape"},
           {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", "larger than the file"},
           {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "no shape"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "does not lie"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", "does not lie"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "overlap"},
           {R"({})", "none"},
           {R"([1])", "header is damaged"},
           {R"({"a":7})", "F32"},
           {std::string(2000, '['), "header is damaged"}}) {
    const uint64_t size = header.size();
    const std::string path = folder_ + "/foreign.safetensors";
    std::ofstream(path, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&size), 8) << header << std::string(8, '\0');
    try {
      (void)read(path);
      ADD_FAILURE() << header;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(cause), std::string::npos) << error.what();
    }
  }
  for (const char* name : {"/none.pt", "/none.safetensors"}) EXPECT_THROW(read(folder_ + name), std::runtime_error);
  EXPECT_THROW(read("/dev/zero"), std::runtime_error);
}

TEST_F(TensorFiles, APtFileAboveFourGibibytesIsRefused) {
  TensorFile large = file();
  large.tensors[0].values = {values_.data(), size_t{1} << 30};  // refused before a value is read
  size_t put = 0;
  try {
    put_pt(large, [&](std::span<const std::byte>) { ++put; });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("name a .safetensors file"), std::string::npos) << error.what();
  }
  EXPECT_EQ(put, 0u);
}

}  // namespace
}  // namespace starling
