#include "agent/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "agent/data/order.h"
#include "tests/agent/data/data_folder.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// With a small, sound data set, for one test to damage.
class IdxFolder : public DataFolder {
 public:
  IdxFolder() {
    model.input = {1, 2, 3};
    model.classes = 4;
    write("train-images-idx3-ubyte", idx_images(5, 2, 3));
    write("train-labels-idx1-ubyte", idx_labels({0, 1, 2, 3, 1}));
  }

  std::string refusal() const {
    return refusal_of([this] { load_data({.path = path()}, model, 1); });
  }
};

// CIFAR-10's binary files: batches 2 and 5 of three records each, and a test batch of one.
class CifarFolder : public DataFolder {
 public:
  CifarFolder() {
    model.input = {3, 32, 32};
    write("data_batch_2.bin", cifar_records({9, 0, 3}));
    write("data_batch_5.bin", cifar_records({1, 2, 4}));
    write("test_batch.bin", cifar_records({7}));
  }

  std::string refusal() const {
    return refusal_of([this] { load_data({.path = path()}, model, 1); });
  }
};

TEST(DatasetIdx, ReadsImagesAndLabels) {
  const IdxFolder folder;
  const Dataset data = load_data({.path = folder.path()}, folder.model, 1).train;
  EXPECT_EQ(data.shape, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(data.labels, (std::vector<uint8_t>{0, 1, 2, 3, 1}));
  ASSERT_EQ(data.pixels.size(), 30u);
  EXPECT_EQ(data.pixels[29], 29);
  EXPECT_EQ(summarize(data), "5 samples, labels 0 1 2 3");
}

TEST(DatasetIdx, ReadsSeveralChannels) {
  IdxFolder folder;
  std::vector<uint8_t> bytes = idx_header({5, 2, 2, 3});
  bytes.resize(bytes.size() + 60, 9);
  folder.write("train-images-idx3-ubyte", bytes);
  folder.model.input = {2, 2, 3};
  EXPECT_EQ(load_data({.path = folder.path()}, folder.model, 1).train.sample_elements(), 12u);
}

TEST(DatasetIdx, AMissingFileIsNamedWithARemedy) {
  const IdxFolder folder;
  fs::remove(folder.path() + "/train-labels-idx1-ubyte");
  expect_parts(folder.refusal(), {folder.path() + "/train-labels-idx1-ubyte: no such file", "agent.data.path"});
  fs::create_directory(folder.path() + "/train-labels-idx1-ubyte");
  expect_parts(folder.refusal(), {"not a regular file"});
}

TEST(DatasetIdx, AWrongMagicNumberIsShown) {
  const IdxFolder folder;
  folder.write("train-images-idx3-ubyte", idx_labels({1, 2, 3, 0, 1}));
  expect_parts(folder.refusal(), {"train-images-idx3-ubyte", "wrong magic number 0x00000801", "0x00000803"});
  folder.write("train-images-idx3-ubyte", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0});
  expect_parts(folder.refusal(), {"train-images-idx3-ubyte", "cut short"});
  for (const uint8_t type : {0, 9, 13}) {  // 13: floats
    std::vector<uint8_t> bytes = idx_images(5, 2, 3);
    bytes[2] = type;
    folder.write("train-images-idx3-ubyte", bytes);
    expect_parts(folder.refusal(), {"wrong magic number"});
  }
}

TEST(DatasetIdx, EveryTruncationSaysHowMuchIsThere) {
  const IdxFolder folder;
  const std::vector<uint8_t> whole = idx_images(5, 2, 3);
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
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{most, most, most},
                                             {most, 1, 1},
                                             {0x80000000, 0x80000000, 4},
                                             {1u << 31, 1u << 31, 1u << 31}}) {
    std::vector<uint8_t> bytes = idx_header(sizes);
    bytes.resize(bytes.size() + 30);
    folder.write("train-images-idx3-ubyte", bytes);
    expect_parts(folder.refusal(), {"cut short"});
  }
}

TEST(DatasetIdx, FilesThatDoNotBelongTogetherAreRefused) {
  const IdxFolder folder;
  folder.write("train-labels-idx1-ubyte", idx_labels({0, 1, 2}));
  expect_parts(folder.refusal(), {"3 labels for the 5 images"});
  folder.write("train-labels-idx1-ubyte", idx_labels({0, 1, 4, 2, 3}));
  expect_parts(folder.refusal(), {"label 4 of sample 2", "4 classes"});
  folder.write("train-labels-idx1-ubyte", idx_labels({}));
  folder.write("train-images-idx3-ubyte", idx_images(0, 2, 3));
  expect_parts(folder.refusal(), {"holds no samples"});
  folder.write("train-labels-idx1-ubyte", idx_labels({0, 1, 2, 3, 1}));
  folder.write("train-images-idx3-ubyte", idx_images(5, 3, 2));
  expect_parts(folder.refusal(), {"[1, 3, 2]", "[1, 2, 3]", "swarm.model: {kind: mlp, input: [1, 3, 2], classes: 4"});
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
  std::vector<uint8_t> bytes = cifar_records({1, 2});
  for (const size_t size : {size_t{1}, size_t{3072}, bytes.size() - 1}) {
    bytes.resize(size);
    folder.write("data_batch_2.bin", bytes);
    expect_parts(folder.refusal(), {"data_batch_2.bin: " + std::to_string(size) + " bytes", "3073", "fetch"});
    bytes = cifar_records({1, 2});
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
  folder.write("data_batch_5.bin", cifar_records({9, 10}));
  folder.model.classes = 100;
  expect_parts(folder.refusal(), {"data_batch_5.bin: label 10 of record 1", "0 to 9"});
  folder.model.classes = 9;
  folder.write("data_batch_5.bin", cifar_records({1}));
  expect_parts(folder.refusal(), {folder.path(), "label 9 of sample 0", "9 classes", "swarm.model.classes"});
}

TEST(DatasetCifar, AModelForOtherImagesIsToldWhatToTake) {
  CifarFolder folder;
  folder.model.input = {1, 28, 28};
  expect_parts(folder.refusal(),
               {folder.path(), "[1, 28, 28]", "swarm.model: {kind: cnn, input: [3, 32, 32], classes: 10"});
}

TEST(DatasetCifar, TestDataAreOptionalUnlessNamed) {
  const CifarFolder folder, other;
  DataConfig config{.path = folder.path(), .test_path = other.path()};
  other.write("test_batch.bin", cifar_records({5, 6}));
  EXPECT_EQ(load_data(config, folder.model, 1).test.labels, (std::vector<uint8_t>{5, 6}));
  fs::remove(other.path() + "/test_batch.bin");
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  fs::remove(folder.path() + "/test_batch.bin");
  config.test_path = "";
  EXPECT_EQ(load_data(config, folder.model, 1).test.count(), 0u);
}

TEST(DatasetLoad, AFolderOfTwoFormatsIsAmbiguous) {
  const IdxFolder folder;
  folder.write("data_batch_1.bin", cifar_records({1}));
  const auto load = [&folder] { load_data({.path = folder.path()}, folder.model, 1); };
  expect_parts(refusal_of(load), {folder.path(), "several data sets", "IDX", "CIFAR-10 (binary version)"});
}

// Thirteen letters, and runs of four.
class TextFolder : public DataFolder {
 public:
  TextFolder() {
    model = {.input = {1, 1, 4}, .classes = 128};
    write("train.txt", bytes_of("abcdefghijklm"));
    write("test.txt", bytes_of("vwxyz"));
  }
  std::string refusal() const {
    return refusal_of([this] { load_data({.path = path()}, model, 1); });
  }
};

TEST(DatasetText, IsCutIntoRunsAndTheByteBehindEach) {
  TextFolder folder;
  const DatasetPair data = load_data({.path = folder.path()}, folder.model, 1);
  EXPECT_EQ(data.train.shape, folder.model.input);
  EXPECT_EQ(data.train.pixels, bytes_of("abcdefghijkl"));
  EXPECT_EQ(data.train.labels, bytes_of("eim"));
  EXPECT_EQ(data.test.pixels, bytes_of("vwxy"));
  EXPECT_EQ(data.test.labels, bytes_of("z"));
  folder.write("train.txt", bytes_of("abcdefghijkl"));  // nothing follows the third run
  EXPECT_EQ(load_data({.path = folder.path()}, folder.model, 1).train.labels, bytes_of("ei"));
  fs::remove(folder.path() + "/test.txt");
  EXPECT_EQ(load_data({.path = folder.path()}, folder.model, 1).test.count(), 0u);
}

TEST(DatasetText, WhatMakesNoSamplesIsRefused) {
  TextFolder folder;
  folder.model.classes = 108;
  expect_parts(folder.refusal(), {"train.txt: byte 11 is 108", "108 classes", "swarm.model.classes: 256"});
  folder.model.classes = 128;
  folder.write("train.txt", bytes_of("abcd"));
  expect_parts(folder.refusal(), {"train.txt: 4 bytes, and one sample needs 5", "longer text"});
  fs::resize_file(folder.path() + "/train.txt", uint64_t{1} << 33);
  expect_parts(folder.refusal(), {"train.txt: 8589934592 bytes, more than 2^32"});
  folder.write("train.txt", {'a', 'b', 0, 'c', 'd', 'e'});
  expect_parts(folder.refusal(), {"train.txt: byte 2 is 0, which no text has", "UTF-8"});
  folder.model.input = {1, 28, 28};
  expect_parts(folder.refusal(), {"train.txt", "[1, 28, 28]", "starling init --data "});
  folder.write("data_batch_1.bin", cifar_records({1}));
  expect_parts(folder.refusal(), {folder.path(), "several data sets", "text"});
}

TEST(DatasetText, ManyLabelsAreCountedNotListed) {
  const TextFolder folder;
  std::vector<uint8_t> bytes(127);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  folder.write("train.txt", bytes);
  const SampleSpec pairs{.input = {1, 1, 2}, .classes = 128};
  EXPECT_EQ(summarize(load_data({.path = folder.path()}, pairs, 1).train), "63 samples, 63 labels");
}

TEST(DatasetLoad, AFolderOfNoFormatIsToldAll) {
  const DataFolder folder;
  const auto load = [&folder] { load_data({.path = folder.path()}, folder.model, 1); };
  expect_parts(refusal_of(load), {folder.path() + ": found nothing", "train-images-idx3-ubyte", "data_batch_1.bin",
                                  ".npz", ".txt", "generated"});
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
  folder.write("t10k-images-idx3-ubyte", idx_images(2, 2, 3));  // half of a test set is a mistake
  EXPECT_THROW(load_data(config, folder.model, 1), std::runtime_error);
  folder.write("t10k-labels-idx1-ubyte", idx_labels({3, 0}));
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
  for (int label = 0; label < 10; ++label) EXPECT_EQ(std::count(data.labels.begin(), data.labels.end(), label), 5);
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

TEST(DatasetHoldOut, IsTheSameDrawEachTimeAndNeverTrainedOn) {
  std::vector<uint32_t> shard(200);
  for (uint32_t i = 0; i < 200; ++i) shard[i] = 3 * i;
  const HeldOut samples = hold_out(shard, 0.1, 7);
  EXPECT_EQ(samples.held.size(), 20u);
  std::vector<uint32_t> both = samples.kept;
  both.insert(both.end(), samples.held.begin(), samples.held.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, shard);
  EXPECT_EQ(hold_out(shard, 0.1, 7).held, samples.held) << "as after a restart";
  EXPECT_NE(hold_out(shard, 0.1, 8).held, samples.held);
  EXPECT_TRUE(std::is_sorted(samples.held.begin(), samples.held.end()));
  EXPECT_GT(samples.held.back() - samples.held.front(), 200u) << "not one run of them";
  EXPECT_TRUE(hold_out(shard, 0, 7).held.empty());
}

TEST(DatasetHoldOut, TakesThePlaceOfTestFiles) {
  const CifarFolder folder;
  const DatasetPair data = load_data({.path = folder.path(), .hold_out = 0.5}, folder.model, 1);
  EXPECT_EQ(data.test.count(), 3u);
  EXPECT_EQ(data.train.count(), 3u);
  ByteVector labels = joined(data.train.labels, data.test.labels);
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(labels, (ByteVector{0, 1, 2, 3, 4, 9})) << "not the 7 of the test file";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(data.test.pixels[i * 3072], 10 * data.test.labels[i]);
  const DatasetPair digits = load_data({.path = "generated", .hold_out = 0.25}, {}, 1);
  EXPECT_EQ(digits.test.count(), kGeneratedTrainCount / 4);
  EXPECT_EQ(digits.train.count(), kGeneratedTrainCount * 3 / 4);
}

TEST(DatasetHoldOut, APartOfAShardWithoutASampleIsRefused) {
  const CifarFolder folder;
  const auto refusal = [&](double part, uint32_t shards) {
    return refusal_of([&] {
      load_data({.path = folder.path(), .sharding = "iid", .shard_count = shards, .hold_out = part}, folder.model, 1);
    });
  };
  EXPECT_EQ(refusal(0.2, 1), "");
  expect_parts(refusal(0.1, 1),
               {folder.path(), "agent.data.hold_out: 0.1 of this agent's 6 samples is none", "raise it"});
  expect_parts(refusal(0.2, 2), {"0.2 of this agent's 3 samples is none"});
}

TEST(DatasetJudged, WantsNoTrainingFiles) {
  const CifarFolder folder;
  bool is_training = true;
  EXPECT_EQ(load_judged_data(folder.path(), folder.model, 1, &is_training).labels, (ByteVector{7}));
  EXPECT_FALSE(is_training);
  fs::remove(folder.path() + "/test_batch.bin");
  EXPECT_EQ(load_judged_data(folder.path(), folder.model, 1, &is_training).count(), 6u);
  EXPECT_TRUE(is_training);
  fs::remove(folder.path() + "/data_batch_2.bin");
  fs::remove(folder.path() + "/data_batch_5.bin");
  folder.write("test_batch.bin", cifar_records({8}));
  EXPECT_EQ(load_judged_data(folder.path(), folder.model, 1, &is_training).labels, (ByteVector{8}));
  EXPECT_FALSE(is_training);
  EXPECT_EQ(load_judged_data("generated", {}, 1, &is_training).count(), kGeneratedTestCount);
}

TEST(DatasetOrder, EveryEpochVisitsEverySampleOnce) {
  DatasetOrder order(10, 1, 0);
  std::vector<int64_t> first(10), second(10);
  order.next(first);
  order.next(std::span(second).first(7));  // batches need not divide the data
  order.next(std::span(second).last(3));
  EXPECT_NE(first, second);
  for (const auto& epoch : {first, second}) EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 10u);
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
