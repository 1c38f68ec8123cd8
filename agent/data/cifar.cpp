// CIFAR-10, in a folder or as the archive that its page offers. The binary version: records of one label byte and 32x32
// pixels, first all red, then all green, then all blue. The Python version: pickles with the same pixels.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "agent/data/cifar_pickle.h"
#include "agent/data/file.h"
#include "agent/data/source.h"
#include "agent/data/tar.h"

namespace starling {
namespace {

constexpr uint64_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
constexpr uint64_t kRecordsMax = 60'000;  // of one file: the whole of CIFAR-10; its own files hold 10,000
constexpr int kLabels = 10;
constexpr int kBatches = 5;

// What the name of a file says; part 0: test_batch.
std::string batch_name(int part, bool pickled) {
  return (part == 0 ? "test_batch" : "data_batch_" + std::to_string(part)) + (pickled ? "" : ".bin");
}

void check_label(const std::string& name, uint8_t label, uint64_t record) {
  if (label < kLabels) return;
  refuse_file(
      name,
      "label " + std::to_string(label) + " of record " + std::to_string(record) + ", but CIFAR-10 has labels 0 to 9",
      "fetch the file again");
}

Records open_records(const ByteRange& where, std::vector<uint8_t>& labels) {
  const std::string name = where.name();
  if (where.bytes > kRecordsMax * kRecord) {
    refuse_file(name, std::to_string(where.bytes) + " bytes, more than " + std::to_string(kRecordsMax) + " records",
                "check that this is the CIFAR-10 file its name says");
  }
  if (where.bytes % kRecord != 0) {
    refuse_file(
        name,
        std::to_string(where.bytes) + " bytes are no whole number of records of " + std::to_string(kRecord) + " bytes",
        "fetch the file again, in CIFAR-10's binary version");
  }
  const Records records{where, 1, kRecord, where.bytes / kRecord};
  std::vector<uint32_t> all(static_cast<size_t>(records.count));
  std::iota(all.begin(), all.end(), 0u);
  const size_t before = labels.size();
  labels.resize(before + all.size());
  read_records({{where, 0, kRecord, records.count}}, 1, all,
               [&](size_t i, const uint8_t* label) { labels[before + i] = *label; });
  return records;
}

Records open_batch(const ByteRange& where, bool pickled, std::vector<uint8_t>& all_labels) {
  std::vector<uint8_t> labels;
  const Records records = pickled ? open_cifar_pickle(where, kRecordsMax, labels) : open_records(where, labels);
  if (records.count == 0) refuse_file(where.name(), "holds no samples", "fetch the file again");
  for (size_t i = 0; i < labels.size(); ++i) check_label(where.name(), labels[i], i);
  all_labels.insert(all_labels.end(), labels.begin(), labels.end());
  return records;
}

SampleSource open_batches(const std::string& place, const std::vector<ByteRange>& batches, bool pickled) {
  SampleSource source{.place = place, .shape = {3, 32, 32}};
  std::vector<Records> parts;
  for (const ByteRange& where : batches) parts.push_back(open_batch(where, pickled, source.labels));
  source.read = [parts](const std::vector<uint32_t>& indices, const TakePixels& take) {
    read_records(parts, kPixels, indices, take);
  };
  return source;
}

FoundData as_found(const std::string& place, bool pickled, bool has_train, bool has_test,
                   const std::function<std::vector<ByteRange>(bool test)>& batches) {
  const auto opener = [&](bool test) {
    return [=](const SampleSpec*) { return open_batches(place, batches(test), pickled); };
  };
  FoundData found{pickled ? "CIFAR-10 (Python version)" : "CIFAR-10 (binary version)", place, {}, {}, true};
  if (has_train) found.train = opener(false);
  if (has_test) found.test = opener(true);
  return found;
}

std::vector<std::string> batches_in(const std::string& folder, bool test, bool pickled) {
  std::vector<std::string> paths;
  for (int part = test ? 0 : 1; part <= (test ? 0 : kBatches); ++part) {
    const std::string path = folder + "/" + batch_name(part, pickled);
    std::error_code error;
    if (std::filesystem::exists(path, error)) paths.push_back(path);
  }
  return paths;
}

// The binary version before the other one, as both hold the same.
std::vector<FoundData> find_unpacked(const std::string& folder) {
  for (const bool pickled : {false, true}) {
    const bool train = !batches_in(folder, false, pickled).empty(), test = !batches_in(folder, true, pickled).empty();
    if (!train && !test) continue;
    return {as_found(folder, pickled, train, test, [=](bool is_test) {
      std::vector<ByteRange> batches;
      for (const std::string& path : batches_in(folder, is_test, pickled)) batches.push_back(whole_file(path));
      return batches;
    })};
  }
  return {};
}

std::vector<ByteRange> batches_among(const std::vector<ByteRange>& members, bool test, bool pickled) {
  std::vector<ByteRange> batches;
  for (int part = test ? 0 : 1; part <= (test ? 0 : kBatches); ++part) {
    for (const ByteRange& member : members) {
      if (std::filesystem::path(member.member).filename() == batch_name(part, pickled)) batches.push_back(member);
    }
  }
  return batches;
}

std::vector<FoundData> find_archive(const std::string& path) {
  const std::vector<ByteRange> members = list_tar(path);
  for (const bool pickled : {false, true}) {
    const std::vector<ByteRange> train = batches_among(members, false, pickled);
    const std::vector<ByteRange> test = batches_among(members, true, pickled);
    if (train.empty() && test.empty()) continue;
    return {
        as_found(path, pickled, !train.empty(), !test.empty(), [=](bool is_test) { return is_test ? test : train; })};
  }
  refuse_file(path, "a tar archive of " + std::to_string(members.size()) + " files without CIFAR-10's data_batch_1.bin",
              "unpack it, and name the folder");
}

}  // namespace

std::vector<FoundData> find_cifar(const std::string& path) {
  std::error_code error;
  if (!is_folder(path)) {
    const bool tar = has_ending(path, ".tar") || has_ending(path, ".tar.gz") || has_ending(path, ".tgz");
    return tar && std::filesystem::exists(path, error) ? find_archive(path) : std::vector<FoundData>{};
  }
  for (const char* below : {"", "/cifar-10-batches-bin", "/cifar-10-batches-py"}) {
    std::vector<FoundData> found = find_unpacked(path + below);
    if (!found.empty()) return found;
  }
  for (const char* name : {"/cifar-10-binary.tar.gz", "/cifar-10-python.tar.gz"}) {
    if (std::filesystem::exists(path + name, error)) return find_archive(path + name);
  }
  return {};
}

}  // namespace starling
