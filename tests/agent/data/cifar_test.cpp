// CIFAR-10 as its page offers it: both archives, and what lies in them.
#include <gtest/gtest.h>

#include <filesystem>

#include "agent/data/tar.h"
#include "tests/agent/data/archives.h"

namespace starling {
namespace {

// Random photographs: five batches and one to evaluate on, in both versions.
class Cifar : public DataFolder {
 public:
  Cifar() {
    model.input = {3, 32, 32};
    for (int part = 0; part <= 5; ++part) {
      ByteVector labels = random_bytes(4, 10 + part), records;
      for (uint8_t& label : labels) label %= 10;
      const ByteVector pixels = random_bytes(4 * 3072, 20 + part);
      for (size_t i = 0; i < 4; ++i) {
        records.push_back(labels[i]);
        records.insert(records.end(), pixels.begin() + static_cast<ptrdiff_t>(3072 * i),
                       pixels.begin() + static_cast<ptrdiff_t>(3072 * (i + 1)));
      }
      Dataset& whole = part == 0 ? test : train;
      whole.labels = joined(whole.labels, labels);
      whole.pixels = joined(whole.pixels, pixels);
      const std::string name = part == 0 ? "test_batch" : "data_batch_" + std::to_string(part);
      binary.push_back({"cifar-10-batches-bin/" + name + ".bin", records});
      python.push_back({"cifar-10-batches-py/" + name, cifar_pickle_of(labels, pixels)});
    }
    // The archive has its own order, and pages beside the data.
    std::swap(binary[2], binary[5]);
    std::swap(python[1], python[4]);
    binary.insert(binary.begin() + 1, {"cifar-10-batches-bin/batches.meta.txt", bytes_of("airplane\n")});
  }

  void unpack(const std::vector<NamedBytes>& members) const {
    for (const NamedBytes& member : members) write(member.name, member.bytes);
  }

  void expect_found(const std::string& below = "") const {
    SCOPED_TRACE(below);
    const DatasetPair data = load_data({.path = path(below)}, model, 1);
    EXPECT_EQ(data.train.shape, model.input);
    EXPECT_EQ(data.train.labels, train.labels);
    EXPECT_EQ(data.train.pixels, train.pixels);
    EXPECT_EQ(data.test.labels, test.labels);
    EXPECT_EQ(data.test.pixels, test.pixels);
  }

  std::string refusal(const std::string& below) const {
    return refusal_of([&] { load_data({.path = path(below)}, model, 1); });
  }

  Dataset train, test;
  std::vector<NamedBytes> binary, python;
};

TEST(CifarArchive, BothVersionsPackedAndUnpacked) {
  {
    const Cifar cifar;
    cifar.write("cifar-10-binary.tar.gz", packed(tar_of(cifar.binary)));
    cifar.expect_found();
    cifar.expect_found("cifar-10-binary.tar.gz");
    cifar.unpack(cifar.binary);
    cifar.write("cifar-10-binary.tar.gz", {});  // an unpacked folder comes first
    cifar.expect_found();
    cifar.expect_found("cifar-10-batches-bin");
  }
  const Cifar cifar;
  cifar.write("cifar-10-python.tar.gz", packed(tar_of(cifar.python)));
  cifar.expect_found();
  cifar.write("other.tar", tar_of(cifar.python));
  cifar.expect_found("other.tar");
  cifar.unpack(cifar.python);
  cifar.expect_found();
  cifar.expect_found("cifar-10-batches-py");
}

TEST(CifarArchive, AShardTakesItsPixelsOutOfTheArchive) {
  const Cifar cifar;
  cifar.write("a.tgz", packed(tar_of(cifar.binary)));
  for (uint32_t shard = 0; shard < 3; ++shard) {
    const DataConfig config{.path = cifar.path("a.tgz"), .sharding = "iid", .shard = shard, .shard_count = 3};
    const std::vector<uint32_t> mine = shard_indices(cifar.train.labels, 10, config, 1);
    const Dataset part = load_data(config, cifar.model, 1).train;
    ASSERT_EQ(part.count(), mine.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(part.labels[i], cifar.train.labels[mine[i]]);
      EXPECT_TRUE(std::equal(part.pixels.begin() + static_cast<ptrdiff_t>(3072 * i),
                             part.pixels.begin() + static_cast<ptrdiff_t>(3072 * (i + 1)),
                             cifar.train.pixels.begin() + static_cast<ptrdiff_t>(3072 * mine[i])));
    }
  }
}

TEST(CifarArchive, DamageIsRefused) {
  const Cifar cifar;
  const ByteVector tar = tar_of(cifar.binary);
  cifar.write("cut.tar", {tar.begin(), tar.begin() + 9000});
  expect_parts(cifar.refusal("cut.tar"), {"cut.tar: cut short", "member"});
  ByteVector wrong = tar;
  wrong[130] = '7';
  cifar.write("wrong.tar", wrong);
  expect_parts(cifar.refusal("wrong.tar"), {"wrong.tar: no tar archive"});
  cifar.write("photos.tar.gz", packed(tar_of({{"a/b.jpg", {1, 2, 3}}})));
  expect_parts(cifar.refusal("photos.tar.gz"), {"1 file", "without CIFAR-10's data_batch_1.bin", "unpack it"});
  cifar.write("record.tar", tar_of({{"data_batch_1.bin", ByteVector(3072)}}));
  expect_parts(cifar.refusal("record.tar"), {"record.tar: data_batch_1.bin: 3072 bytes", "3073"});
}

TEST(CifarArchive, ANameThatLeadsOutIsRefused) {
  const Cifar cifar;
  for (const std::string name : {"../../etc/data_batch_1.bin", "/etc/data_batch_1.bin", "a/../../data_batch_1.bin"}) {
    cifar.write("evil.tar.gz", packed(tar_of({{name, cifar_records({1})}})));
    expect_parts(cifar.refusal("evil.tar.gz"), {name, "leads out of the folder"});
  }
}

// 100 MB of zeros in 100 KB: one member, or many.
TEST(CifarArchive, ABombIsRefused) {
  const Cifar cifar;
  cifar.write("bomb.tar.gz", packed(tar_of({{"data_batch_1.bin", ByteVector(100'000'000)}})));
  expect_parts(cifar.refusal("bomb.tar.gz"), {"data_batch_1.bin has 100000000 bytes"});
  std::vector<NamedBytes> many;
  for (int i = 0; i < 100; ++i) many.push_back({std::to_string(i), ByteVector(1'000'000)});
  cifar.write("bomb.tar.gz", packed(tar_of(many)));
  expect_parts(cifar.refusal("bomb.tar.gz"), {"cut short"});
}

TEST(CifarPickle, NothingButABatchIsRead) {
  const Cifar cifar;
  const auto refusal = [&](const ByteVector& pickle) {
    cifar.write("py/data_batch_1", pickle);
    return cifar.refusal("py");
  };
  const ByteVector whole = cifar_pickle_of({1, 2, 3}, ByteVector(3 * 3072));
  EXPECT_EQ(refusal(whole), "");
  for (size_t size = 0; size + 1 < whole.size(); size = size < 300 || size >= 9400 ? size + 1 : 9400) {
    EXPECT_NE(refusal({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}), "") << size;
  }
  expect_parts(refusal(cifar_pickle_of({1, 2}, ByteVector(3 * 3072))), {"2 labels and 3 images", "cifar-10-binary"});
  expect_parts(refusal(cifar_pickle_of({1, 2}, ByteVector(2 * 3072 + 5000))), {"11144 bytes of pixels"});
  expect_parts(refusal(cifar_pickle_of({1, 10}, ByteVector(2 * 3072))), {"label 10 of record 1"});
  // os.system("id") as Python would call it: a name, and a call that this reader does not know what to do with.
  expect_parts(refusal(bytes_of("cos\nsystem\n(S'id'\ntR.")), {"no batch of CIFAR-10", "opcode 83"});
}

}  // namespace
}  // namespace starling
