// What loading data takes beside the samples that are kept: all that the program asks `new` for is counted.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "tests/agent/data/image_files.h"

namespace {
size_t held = 0, most = 0;
}  // namespace

void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  held += malloc_usable_size(memory);
  most = std::max(most, held);
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) held -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace starling {
namespace {

constexpr uint32_t kSide = 28, kImages = 20'000, kClasses = 4;
constexpr double kOverheadMax = 1.15;

// The largest sum of live memory, over the bytes of the samples that are kept.
double peak_over_data(const DataConfig& config, const SampleSpec& model) {
  const size_t before = held;
  most = held;
  const DatasetPair data = load_data(config, model, 1);
  return static_cast<double>(most - before) / static_cast<double>(data.train.pixels.size() + data.train.count());
}

std::vector<DataConfig> whole_and_shard(const std::string& path) {
  return {{.path = path}, {.path = path, .sharding = "iid", .shard_count = 4}};
}

// A few images under many names.
void write_images(const DataFolder& folder, const std::string& ending, const std::function<ByteVector()>& image) {
  for (uint32_t label = 0; label < kClasses; ++label) {
    const std::string name = "class-" + std::to_string(label) + "/image-";
    folder.write(name + "0" + ending, image());
    for (uint32_t i = 1; i < kImages / kClasses; ++i) {
      std::filesystem::create_hard_link(folder.path(name + "0" + ending),
                                        folder.path(name + std::to_string(100'000 + i) + ending));
    }
  }
}

TEST(DataMemory, IdxTakesLittleMoreThanItsShard) {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(kImages, kSide, kSide));
  folder.write("train-labels-idx1-ubyte", idx_labels(ByteVector(kImages, 3)));
  for (const DataConfig& config : whole_and_shard(folder.path())) EXPECT_LE(peak_over_data(config, {}), kOverheadMax);
}

TEST(DataMemory, FoldersOfImagesTakeLittleMoreThanTheirShard) {
  const SampleSpec model{.input = {1, kSide, kSide}, .classes = kClasses};
  const DataFolder pngs, jpegs;
  write_images(pngs, ".png", [] { return png_of(random_bytes(kSide * kSide, 1), PNG_FORMAT_GRAY, kSide, kSide); });
  write_images(jpegs, ".jpg", [] { return jpeg_of(random_bytes(kSide * kSide, 1), 1, kSide, kSide); });
  for (const std::string& path : {pngs.path(), jpegs.path()}) {
    for (const DataConfig& config : whole_and_shard(path))
      EXPECT_LE(peak_over_data(config, model), kOverheadMax) << path;
  }
}

TEST(DataMemory, HoldingOutTakesNoMore) {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(kImages, kSide, kSide));
  folder.write("train-labels-idx1-ubyte", idx_labels(ByteVector(kImages, 3)));
  const DataConfig config{.path = folder.path(), .hold_out = 0.5};
  EXPECT_LE(peak_over_data(config, {}) / 2, kOverheadMax) << "half of what is read is for tests";
}

}  // namespace
}  // namespace starling
