#include "agent/data/dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "agent/data/order.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, removed with it.
class DataFolder {
 public:
  DataFolder() {
    std::string name = (fs::temp_directory_path() / "starling_dataset_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~DataFolder() { fs::remove_all(path_); }

  void write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path() const { return path_.string(); }

  SampleSpec model;

 private:
  fs::path path_;
};

// What `load` says when it refuses; empty if it does not.
template <typename Load>
std::string refusal_of(const Load& load) {
  try {
    load();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// With a small, sound data set, for one test to damage.
class IdxFolder : public DataFolder {
 public:
  IdxFolder() {
    model.input = {1, 2, 3};
    model.classes = 4;
    write("train-images-idx3-ubyte", images(5, 2, 3));
    write("train-labels-idx1-ubyte", labels({0, 1, 2, 3, 1}));
  }

  static std::vector<uint8_t> header(std::vector<uint32_t> sizes) {
    std::vector<uint8_t> bytes = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
    for (const uint32_t size : sizes) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(size >> shift));
    }
    return bytes;
  }
  static std::vector<uint8_t> images(uint32_t count, uint32_t height, uint32_t width) {
    std::vector<uint8_t> bytes = header({count, height, width});
    for (uint32_t i = 0; i < count * height * width; ++i) bytes.push_back(static_cast<uint8_t>(i));
    return bytes;
  }
  static std::vector<uint8_t> labels(const std::vector<uint8_t>& values) {
    std::vector<uint8_t> bytes = header({static_cast<uint32_t>(values.size())});
    bytes.insert(bytes.end(), values.begin(), values.end());
    return bytes;
  }

  std::string refusal() const {
    return refusal_of([this] { load_idx(path(), DataPart::kTrain, model); });
  }
};

// CIFAR-10's binary files: batches 2 and 5 of three records each, and a test batch of one.
class CifarFolder : public DataFolder {
 public:
  CifarFolder() {
    model.input = {3, 32, 32};
    write("data_batch_2.bin", records({9, 0, 3}));
    write("data_batch_5.bin", records({1, 2, 4}));
    write("test_batch.bin", records({7}));
  }

  // Red pixels are ten times the label, green ones 1 more, blue ones 2; the last of all is 255.
  static std::vector<uint8_t> records(const std::vector<uint8_t>& labels) {
    std::vector<uint8_t> bytes;
    for (const uint8_t label : labels) {
      bytes.push_back(label);
      for (int channel = 0; channel < 3; ++channel)
        bytes.insert(bytes.end(), 1024, static_cast<uint8_t>(10 * label + channel));
      bytes.back() = 255;
    }
    return bytes;
  }

  std::string refusal() const {
    return refusal_of([this] { load_data({.path = path()}, model, 1); });
  }
};

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
}

TEST(DatasetIdx, ReadsImagesAndLabels) {
  const IdxFolder folder;
  const Dataset data = load_idx(folder.path(), DataPart::kTrain, folder.model);
  EXPECT_EQ(data.shape, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(data.labels, (std::vector<uint8_t>{0, 1, 2, 3, 1}));
  ASSERT_EQ(data.pixels.size(), 30u);
  EXPECT_EQ(data.pixels[29], 29);
  EXPECT_EQ(summarize(data), "5 samples, labels 0 1 2 3");
}

TEST(DatasetIdx, ReadsSeveralChannels) {
  IdxFolder folder;
  std::vector<uint8_t> bytes = IdxFolder::header({5, 2, 2, 3});
  bytes.resize(bytes.size() + 60, 9);
  folder.write("train-images-idx3-ubyte", bytes);
  folder.model.input = {2, 2, 3};
  EXPECT_EQ(load_idx(folder.path(), DataPart::kTrain, folder.model).sample_elements(), 12u);
}

TEST(DatasetIdx, AMissingFileIsNamedWithARemedy) {
  const IdxFolder folder;
  fs::remove(folder.path() + "/train-labels-idx1-ubyte");
  expect_parts(folder.refusal(), {folder.path() + "/train-labels-idx1-ubyte: no such file", "agent.data.path",
                                  "generated"});
  folder.write("train-labels-idx1-ubyte.gz", {1});
  expect_parts(folder.refusal(), {"gunzip"});
  fs::create_directory(folder.path() + "/train-labels-idx1-ubyte");
  expect_parts(folder.refusal(), {"not a regular file"});
}

TEST(DatasetIdx, AWrongMagicNumberIsShown) {
  const IdxFolder folder;
  folder.write("train-images-idx3-ubyte", IdxFolder::labels({1, 2, 3, 0, 1}));
  expect_parts(folder.refusal(), {"train-images-idx3-ubyte", "wrong magic number 0x00000801", "0x00000803"});
  folder.write("train-images-idx3-ubyte", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0});
  expect_parts(folder.refusal(), {"gzip", "gunzip"});
  for (const uint8_t type : {0, 9, 13}) {  // 13: floats
    std::vector<uint8_t> bytes = IdxFolder::images(5, 2, 3);
    bytes[2] = type;
    folder.write("train-images-idx3-ubyte", bytes);
    expect_parts(folder.refusal(), {"wrong magic number"});
  }
}

TEST(DatasetIdx, EveryTruncationSaysHowMuchIsThere) {
  const IdxFolder folder;
  const std::vector<uint8_t> whole = IdxFolder::images(5, 2, 3);
  for (size_t size = 0; size < whole.size(); ++size) {
    folder.write("train-images-idx3-ubyte", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
    expect_parts(folder.refusal(), {"cut short"});
  }
  expect_parts(folder.refusal(), {"announces 30 bytes", "holds 29"});
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  folder.write("train-images-idx3-ubyte", longer);
  expect_parts(folder.refusal(), {"too long", "announces 30 bytes", "holds 31"});
}

// Sizes whose product overflows, or asks for more memory than there is, never reach an allocation.
TEST(DatasetIdx, AbsurdSizesAreCutShort) {
  const IdxFolder folder;
  const uint32_t most = 0xffffffff;
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{most, most, most}, {most, 1, 1},
                                             {0x80000000, 0x80000000, 4}, {1u << 31, 1u << 31, 1u << 31}}) {
    std::vector<uint8_t> bytes = IdxFolder::header(sizes);
    bytes.resize(bytes.size() + 30);
    folder.write("train-images-idx3-ubyte", bytes);
    expect_parts(folder.refusal(), {"cut short"});
  }
}

TEST(DatasetIdx, FilesThatDoNotBelongTogetherAreRefused) {
  const IdxFolder folder;
  folder.write("train-labels-idx1-ubyte", IdxFolder::labels({0, 1, 2}));
  expect_parts(folder.refusal(), {"3 labels for the 5 images"});
  folder.write("train-labels-idx1-ubyte", IdxFolder::labels({0, 1, 4, 2, 3}));
  expect_parts(folder.refusal(), {"label 4 of sample 2", "4 classes"});
  folder.write("train-labels-idx1-ubyte", IdxFolder::labels({}));
  folder.write("train-images-idx3-ubyte", IdxFolder::images(0, 2, 3));
  expect_parts(folder.refusal(), {"holds no samples"});
  folder.write("train-images-idx3-ubyte", IdxFolder::images(5, 3, 2));
  expect_parts(folder.refusal(), {"[1, 3, 2]", "[1, 2, 3]", "swarm.model.input"});
}

TEST(DatasetCifar, ReadsTheBatchesThatAreThereInTheirOrder) {
  const CifarFolder folder;
  const DatasetPair data = load_data({.path = folder.path()}, folder.model, 1);
  EXPECT_EQ(data.train.shape, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(data.train.labels, (std::vector<uint8_t>{9, 0, 3, 1, 2, 4}));
  ASSERT_EQ(data.train.pixels.size(), 6u * 3072);
  const uint8_t* third = data.train.pixels.data() + 2 * 3072;
  EXPECT_EQ(third[0], 30);
  EXPECT_EQ(third[1024], 31);
  EXPECT_EQ(third[3070], 32);
  EXPECT_EQ(third[3071], 255);
  EXPECT_EQ(data.test.labels, (std::vector<uint8_t>{7}));
  EXPECT_EQ(load_data({.path = folder.path(), .labels = {4}}, folder.model, 1).train.pixels[0], 40);
}

TEST(DatasetCifar, OnlyWholeRecordsAreTaken) {
  const CifarFolder folder;
  std::vector<uint8_t> bytes = CifarFolder::records({1, 2});
  for (const size_t size : {size_t{1}, size_t{3072}, bytes.size() - 1}) {
    bytes.resize(size);
    folder.write("data_batch_2.bin", bytes);
    expect_parts(folder.refusal(), {"data_batch_2.bin: " + std::to_string(size) + " bytes", "3073", "fetch"});
    bytes = CifarFolder::records({1, 2});
  }
  folder.write("data_batch_2.bin", {});
  expect_parts(folder.refusal(), {"data_batch_2.bin: holds no samples"});
  fs::remove(folder.path() + "/data_batch_2.bin");
  fs::create_directory(folder.path() + "/data_batch_2.bin");
  expect_parts(folder.refusal(), {"not a regular file"});
}

// A file that only claims to be large costs nothing: its size is looked at before memory is asked for.
TEST(DatasetCifar, AnAbsurdSizeIsRefused) {
  const CifarFolder folder;
  fs::resize_file(folder.path() + "/data_batch_5.bin", uint64_t{3073} << 30);
  expect_parts(folder.refusal(), {"data_batch_5.bin", "more than 60000 records"});
}

TEST(DatasetCifar, LabelsOutsideTheTenOrTheModelAreRefused) {
  CifarFolder folder;
  folder.write("data_batch_5.bin", CifarFolder::records({9, 10}));
  folder.model.classes = 100;
  expect_parts(folder.refusal(), {"data_batch_5.bin: label 10 of record 1", "0 to 9"});
  folder.model.classes = 9;
  expect_parts(folder.refusal(), {"data_batch_2.bin: label 9 of record 0", "9 classes", "swarm.model.classes"});
}

TEST(DatasetCifar, AModelForOtherImagesIsToldWhatToTake) {
  CifarFolder folder;
  folder.model.input = {1, 28, 28};
  expect_parts(folder.refusal(), {folder.path(), "[1, 28, 28]", "swarm.model.input: [3, 32, 32]"});
}

TEST(DatasetCifar, TestDataAreOptionalUnlessNamed) {
  const CifarFolder folder, other;
  DataConfig config{.path = folder.path(), .test_path = other.path()};
  other.write("test_batch.bin", CifarFolder::records({5, 6}));
  EXPECT_EQ(load_data(config, folder.model, 1).test.labels, (std::vector<uint8_t>{5, 6}));
  fs::remove(other.path() + "/test_batch.bin");
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  fs::remove(folder.path() + "/test_batch.bin");
  config.test_path = "";
  EXPECT_EQ(load_data(config, folder.model, 1).test.count(), 0u);
}

TEST(DatasetLoad, AFolderOfTwoFormatsIsAmbiguous) {
  const IdxFolder folder;
  folder.write("data_batch_1.bin", CifarFolder::records({1}));
  const auto load = [&folder] { load_data({.path = folder.path()}, folder.model, 1); };
  expect_parts(refusal_of(load), {folder.path(), "both IDX and CIFAR-10"});
}

// Thirteen letters, and runs of four.
class TextFolder : public DataFolder {
 public:
  TextFolder() {
    model = {.input = {1, 1, 4}, .classes = 128};
    write("train.txt", bytes("abcdefghijklm"));
    write("test.txt", bytes("vwxyz"));
  }
  static std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
  std::string refusal() const {
    return refusal_of([this] { load_data({.path = path()}, model, 1); });
  }
};

TEST(DatasetText, IsCutIntoRunsAndTheByteBehindEach) {
  TextFolder folder;
  const DatasetPair data = load_data({.path = folder.path()}, folder.model, 1);
  EXPECT_EQ(data.train.shape, folder.model.input);
  EXPECT_EQ(data.train.pixels, TextFolder::bytes("abcdefghijkl"));
  EXPECT_EQ(data.train.labels, TextFolder::bytes("eim"));
  EXPECT_EQ(data.test.pixels, TextFolder::bytes("vwxy"));
  EXPECT_EQ(data.test.labels, TextFolder::bytes("z"));
  folder.write("train.txt", TextFolder::bytes("abcdefghijkl"));   // nothing follows the third run
  EXPECT_EQ(load_data({.path = folder.path()}, folder.model, 1).train.labels, TextFolder::bytes("ei"));
  fs::remove(folder.path() + "/test.txt");
  EXPECT_EQ(load_data({.path = folder.path()}, folder.model, 1).test.count(), 0u);
}

TEST(DatasetText, WhatMakesNoSamplesIsRefused) {
  TextFolder folder;
  folder.model.classes = 108;
  expect_parts(folder.refusal(), {"train.txt: byte 11 is 108", "108 classes", "swarm.model.classes: 256"});
  folder.model.classes = 128;
  folder.write("train.txt", TextFolder::bytes("abcd"));
  expect_parts(folder.refusal(), {"train.txt: 4 bytes, and one sample needs 5", "longer text"});
  fs::resize_file(folder.path() + "/train.txt", uint64_t{1} << 33);
  expect_parts(folder.refusal(), {"train.txt: 8589934592 bytes, more than 2^32"});
  folder.model.input = {1, 28, 28};
  expect_parts(folder.refusal(), {"train.txt", "[1, 28, 28]", "lstm", "[1, 1, LENGTH]"});
  folder.write("data_batch_1.bin", CifarFolder::records({1}));
  expect_parts(folder.refusal(), {folder.path(), "text and images"});
}

TEST(DatasetText, ManyLabelsAreCountedNotListed) {
  const TextFolder folder;
  std::vector<uint8_t> bytes(128);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  folder.write("train.txt", bytes);
  const SampleSpec pairs{.input = {1, 1, 2}, .classes = 128};
  EXPECT_EQ(summarize(load_data({.path = folder.path()}, pairs, 1).train), "63 samples, 63 labels");
}

TEST(DatasetLoad, AFolderOfNoFormatIsToldAll) {
  const DataFolder folder;
  const auto load = [&folder] { load_data({.path = folder.path()}, folder.model, 1); };
  expect_parts(refusal_of(load), {folder.path(), "train-images-idx3-ubyte", "data_batch_1.bin", "train.txt",
                                  "generated"});
}

TEST(DatasetLoad, TestDataAreOptionalUnlessNamed) {
  const IdxFolder folder;
  DataConfig config{.path = folder.path()};
  const DatasetPair data = load_data(config, folder.model, 1);
  EXPECT_EQ(data.train.count(), 5u);
  EXPECT_EQ(data.test.count(), 0u);
  config.test_path = folder.path();
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  config.test_path = "";
  folder.write("t10k-images-idx3-ubyte", IdxFolder::images(2, 2, 3));  // half of a test set is a mistake
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  folder.write("t10k-labels-idx1-ubyte", IdxFolder::labels({3, 0}));
  EXPECT_EQ(load_data(config, folder.model, 1).test.labels, (std::vector<uint8_t>{3, 0}));
}

TEST(DatasetLoad, AnEmptyShardAndMissingPathsAreRefused) {
  const IdxFolder folder;
  DataConfig config{.path = folder.path(), .labels = {9}};
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  config.labels = {};
  config.path = "";
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
}

TEST(DatasetLoad, TheShardTakesItsPixelsAlong) {
  const IdxFolder folder;
  const DataConfig config{.path = folder.path(), .labels = {1}};
  const Dataset data = load_data(config, folder.model, 1).train;
  EXPECT_EQ(data.labels, (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(data.pixels, (std::vector<uint8_t>{6, 7, 8, 9, 10, 11, 24, 25, 26, 27, 28, 29}));
}

TEST(DatasetDigits, FollowFromTheRngSeed) {
  const Dataset data = draw_digits(50, 7, 0);
  EXPECT_EQ(data.shape, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(data.pixels, draw_digits(50, 7, 0).pixels);
  EXPECT_NE(data.pixels, draw_digits(50, 8, 0).pixels);
  EXPECT_NE(data.pixels, draw_digits(50, 7, 1).pixels);
  for (int label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(data.labels.begin(), data.labels.end(), label), 5);
}

// The plainest of all learners, the mean image of each digit, must already see what they are; and they must
// vary.
TEST(DatasetDigits, LookLikeTenDifferentThings) {
  const Dataset train = draw_digits(1000, 1, 0), test = draw_digits(300, 1, 1);
  std::vector<std::vector<double>> mean(10, std::vector<double>(784));
  for (size_t i = 0; i < train.count(); ++i) {
    for (size_t p = 0; p < 784; ++p) mean[train.labels[i]][p] += train.pixels[i * 784 + p] / 100.0;
  }
  int right = 0;
  for (size_t i = 0; i < test.count(); ++i) {
    std::vector<double> distance(10);
    for (size_t c = 0; c < 10; ++c) {
      for (size_t p = 0; p < 784; ++p) {
        const double difference = test.pixels[i * 784 + p] - mean[c][p];
        distance[c] += difference * difference;
      }
    }
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == test.labels[i];
  }
  EXPECT_GT(right, 300 * 0.6);
  EXPECT_LT(right, 300);
}

TEST(DatasetLoad, GeneratedDigitsWantTheirModel) {
  SampleSpec model;
  const DataConfig config{.path = "generated"};
  const DatasetPair data = load_data(config, model, 3);
  EXPECT_EQ(data.train.count(), kGeneratedTrainCount);
  EXPECT_EQ(data.test.count(), kGeneratedTestCount);
  model.input = {1, 32, 32};
  EXPECT_THROW(load_data(config, model, 3), std::runtime_error);
}

TEST(DatasetOrder, EveryEpochVisitsEverySampleOnce) {
  DatasetOrder order(10, 1, 0);
  std::vector<int64_t> first(10), second(10);
  order.next(first);
  order.next(std::span(second).first(7));  // batches need not divide the data
  order.next(std::span(second).last(3));
  EXPECT_NE(first, second);
  for (const auto& epoch : {first, second})
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 10u);
  EXPECT_EQ(order.place(), (DatasetOrder::Place{2, 0}));
}

TEST(DatasetOrder, ABatchMayExceedTheData) {
  DatasetOrder order(3, 1, 0);
  std::vector<int64_t> batch(8);
  order.next(batch);
  for (int64_t sample = 0; sample < 3; ++sample) EXPECT_GE(std::count(batch.begin(), batch.end(), sample), 2);
}

TEST(DatasetOrder, GoesOnExactlyFromItsPlace) {
  DatasetOrder order(100, 5, 2), resumed(100, 5, 2), other_stream(100, 5, 3), other_seed(100, 6, 2);
  std::vector<int64_t> batch(64), again(64);
  for (int i = 0; i < 5; ++i) order.next(batch);
  ASSERT_TRUE(resumed.set_place(order.place()));
  for (int i = 0; i < 5; ++i) {
    order.next(batch);
    resumed.next(again);
    EXPECT_EQ(batch, again);
  }
  ASSERT_TRUE(resumed.set_place({0, 0}));
  resumed.next(batch);
  other_stream.next(again);
  EXPECT_NE(batch, again);
  other_seed.next(again);
  EXPECT_NE(batch, again);
  const DatasetOrder::Place before = order.place();
  EXPECT_FALSE(order.set_place({0, 100}));
  EXPECT_EQ(order.place(), before);
}

}  // namespace
}  // namespace starling
