// CIFAR-10's binary files: records of one label byte and 32x32 pixels, first all red, then all green, then all
// blue. They have no header: the size of a file and its labels are all that can be checked.
#include <algorithm>
#include <filesystem>

#include "agent/data/dataset.h"
#include "agent/data/file.h"

namespace starling {
namespace {

constexpr uint64_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
constexpr uint64_t kRecordsMax = 60'000;  // of one file: the whole of CIFAR-10; its own files hold 10,000
constexpr int kLabels = 10;

std::vector<std::string> train_files(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (int i = 1; i <= 5; ++i) {
    const std::filesystem::path path = folder / ("data_batch_" + std::to_string(i) + ".bin");
    std::error_code error;
    if (std::filesystem::exists(path, error)) paths.push_back(path);
  }
  return paths;
}

std::vector<uint8_t> read_records(const std::string& path) {
  uint64_t size_bytes = 0;
  std::ifstream file = open_data_file(path, &size_bytes);
  if (size_bytes > kRecordsMax * kRecord) {
    refuse_file(path, std::to_string(size_bytes) + " bytes, more than " + std::to_string(kRecordsMax) + " records",
                "check that this is the CIFAR-10 file its name says");
  }
  if (size_bytes % kRecord != 0) {
    refuse_file(path, std::to_string(size_bytes) + " bytes are no whole number of records of " +
                          std::to_string(kRecord) + " bytes",
                "fetch the file again, in CIFAR-10's binary version");
  }
  if (size_bytes == 0) refuse_file(path, "holds no samples", "fetch the file again");
  std::vector<uint8_t> bytes(size_bytes);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size_bytes))) {
    refuse_file(path, "reading failed", "check the disk");
  }
  return bytes;
}

void check_label(const std::string& path, uint8_t label, uint64_t record, const SampleSpec& model) {
  if (label < kLabels && label < model.classes) return;
  const std::string where = "label " + std::to_string(label) + " of record " + std::to_string(record);
  if (label >= kLabels) refuse_file(path, where + ", but CIFAR-10 has labels 0 to 9", "fetch the file again");
  refuse_file(path, where + " is outside the model's " + std::to_string(model.classes) + " classes",
              "raise swarm.model.classes to 10");
}

void append(const std::string& path, const SampleSpec& model, Dataset& data) {
  const std::vector<uint8_t> bytes = read_records(path);
  const size_t before = data.pixels.size();
  data.pixels.resize(before + bytes.size() / kRecord * kPixels);
  uint8_t* to = data.pixels.data() + before;
  for (size_t at = 0; at < bytes.size(); at += kRecord) {
    check_label(path, bytes[at], at / kRecord, model);
    data.labels.push_back(bytes[at]);
    to = std::copy_n(bytes.data() + at + 1, kPixels, to);
  }
}

}  // namespace

bool has_cifar(const std::string& folder, DataPart part) {
  std::error_code error;
  if (part == DataPart::kTest) return std::filesystem::exists(folder + "/test_batch.bin", error);
  return !train_files(folder).empty();
}

Dataset load_cifar(const std::string& folder, DataPart part, const SampleSpec& model) {
  Dataset data{.shape = {3, 32, 32}};
  if (data.shape != model.input) {
    refuse_file(folder, "its images are " + print_shape(data.shape) + " (CIFAR-10) but the model takes " +
                            print_shape(model.input),
                "set swarm.model.input: " + print_shape(data.shape) + ", or use other data");
  }
  const bool is_test = part == DataPart::kTest;
  const std::vector<std::string> paths =
      is_test ? std::vector<std::string>{folder + "/test_batch.bin"} : train_files(folder);
  for (const std::string& path : paths) append(path, model, data);
  return data;
}

}  // namespace starling
