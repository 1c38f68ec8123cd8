// NumPy's archives, by the names that people give their arrays.
#include <gtest/gtest.h>

#include "agent/data/survey.h"
#include "tests/agent/data/archives.h"

namespace starling {
namespace {

// Random images of 4 x 6 pixels, and as many labels as there are images.
class Npz : public DataFolder {
 public:
  Npz() { model = {.input = {1, 4, 6}, .classes = 5}; }

  DatasetPair load(const std::string& below = "a.npz") const { return load_data({.path = path(below)}, model, 1); }
  std::string refusal() const {
    return refusal_of([&] { load(); });
  }
  std::string refusal_with(const NamedBytes& x, const NamedBytes& y) const {
    write("a.npz", zip_of({x, y}));
    return refusal();
  }

  const ByteVector pixels = random_bytes(5 * 24, 1), tests = random_bytes(2 * 24, 2);
  const ByteVector labels = {4, 0, 1, 3, 2}, test_labels = {1, 4};
  const NamedBytes x{"x.npy", npy_of("|u1", "5, 4, 6", pixels)}, y{"y.npy", npy_of("|u1", "5,", labels)};
};

ByteVector widened(const ByteVector& labels, int bytes) {
  ByteVector wide;
  for (const uint8_t label : labels) put(wide, label, bytes);
  return wide;
}

TEST(Npz, UnderAllNamesStoredDeflatedAndWide) {
  struct Names { std::string x, y, x_test, y_test; };
  for (const Names& names : {Names{"x", "y", "", ""},
                             {"images", "labels", "", ""},
                             {"x_train", "y_train", "x_test", "y_test"},
                             {"train_images", "train_labels", "test_images", "test_labels"}}) {
    for (const ZipForm form : {ZipForm{}, {.deflated = true}, {.wide = true}}) {
      const Npz npz;
      std::vector<NamedBytes> arrays = {{names.y + ".npy", npy_of("<i8", "5, 1", widened(npz.labels, 8))},
                                        {names.x + ".npy", npz.x.bytes}};
      if (!names.x_test.empty()) {
        arrays.push_back({names.x_test + ".npy", npy_of("|u1", "2, 4, 6", npz.tests)});
        arrays.push_back({names.y_test + ".npy", npy_of("<u2", "2,", widened(npz.test_labels, 2))});
      }
      npz.write("a.npz", zip_of(arrays, form));
      for (const char* below : {"a.npz", ""}) {
        const DatasetPair data = npz.load(below);
        EXPECT_EQ(data.train.shape, npz.model.input);
        EXPECT_EQ(data.train.pixels, npz.pixels) << names.x;
        EXPECT_EQ(data.train.labels, npz.labels);
        EXPECT_EQ(data.test.pixels, names.x_test.empty() ? ByteVector() : npz.tests);
        EXPECT_EQ(data.test.labels, names.x_test.empty() ? ByteVector() : npz.test_labels);
      }
    }
  }
}

TEST(Npz, ChannelsStandLastOrFirst) {
  Npz npz;
  npz.model.input = {3, 2, 4};
  ByteVector planes;
  for (size_t image = 0; image < 5; ++image) {
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t pixel = 0; pixel < 8; ++pixel) planes.push_back(npz.pixels[image * 24 + pixel * 3 + channel]);
    }
  }
  npz.write("a.npz", zip_of({{"x.npy", npy_of("|u1", "5, 2, 4, 3", npz.pixels)}, npz.y}));
  EXPECT_EQ(npz.load().train.pixels, planes);
  npz.write("a.npz", zip_of({{"x.npy", npy_of("|u1", "5, 3, 2, 4", planes)}, npz.y}));
  EXPECT_EQ(npz.load().train.pixels, planes);
  npz.model.input = {1, 4, 6};
  npz.write("a.npz", zip_of({{"x.npy", npy_of("|u1", "5, 4, 6, 1", npz.pixels)}, npz.y}));
  EXPECT_EQ(npz.load().train.pixels, npz.pixels);
}

// As texts come; a model of texts would read no labels.
TEST(Npz, SamplesOfOneRowStandAsAColumn) {
  Npz npz;
  npz.model.input = {1, 24, 1};
  npz.write("a.npz", zip_of({{"x.npy", npy_of("|u1", "5, 1, 24", npz.pixels)}, npz.y}));
  EXPECT_EQ(npz.load().train.pixels, npz.pixels);
  EXPECT_NE(survey_data(npz.path("a.npz"), nullptr, true).model.find("kind: mlp"), std::string::npos);
  npz.model.input = {1, 1, 24};
  EXPECT_EQ(npz.load().train.labels, npz.labels) << "as a config says it";
}

TEST(Npz, AnUndividedFileServesAsTests) {
  const Npz npz;
  npz.write("a.npz", zip_of({npz.x, npz.y}));
  npz.write("b.npz", zip_of({{"x.npy", npy_of("|u1", "2, 4, 6", npz.tests)}, {"y.npy", npy_of("|u1", "2,", {1, 4})}}));
  const DataConfig both{.path = npz.path("a.npz"), .test_path = npz.path("b.npz")};
  const DatasetPair data = load_data(both, npz.model, 1);
  EXPECT_EQ(data.train.labels, npz.labels);
  EXPECT_EQ(data.test.pixels, npz.tests);
  expect_parts(refusal_of([&] { npz.load(""); }), {"several data sets", npz.path("b.npz")});
}

TEST(Npz, PickledObjectsAreNeverRead) {
  const Npz npz;
  const NamedBytes pickled{"y.npy", npy_of("|O", "5,", bytes_of("cos\nsystem\n(S'id'\ntR."))};
  expect_parts(npz.refusal_with(npz.x, pickled), {"a.npz: y.npy", "pickled Python objects", "never read"});
}

TEST(Npz, OtherArraysAreRefusedWithWhatWasExpected) {
  const Npz npz;
  const auto images = [&](const std::string& type, const std::string& shape, size_t bytes) {
    return npz.refusal_with({"x.npy", npy_of(type, shape, ByteVector(bytes))}, npz.y);
  };
  expect_parts(images("<f4", "5, 4, 6", 480), {"x.npy", "expected images of bytes", "'<f4'", "astype('uint8')"});
  expect_parts(images("|u1", "5, 24", 120), {"(count, height, width)", "shape (5, 24)", "reshape x"});
  expect_parts(images("|u1", "5, 4, 6, 4", 480), {"shape (5, 4, 6, 4)", "leave out an alpha channel"});
  expect_parts(images("|u1", "5, 7, 4, 6", 840), {"1 or 3 channels"});
  expect_parts(images("|u1", "4, 4, 6", 96), {"5 labels for 4 images"});
  expect_parts(images("|u1", "5, 4, 6", 119), {"120 bytes by its shape, and 119 are there"});
  expect_parts(images("|u1", "4294967295, 4294967295, 4294967295", 5), {"an endless shape"});
  expect_parts(images("|u1", "9999999999999999999999, 4, 6", 5), {"shape (9999"});
  expect_parts(images("|u1", "5, 0, 6", 0), {"holds no samples"});
  const auto labels = [&](const std::string& type, const std::string& shape, const ByteVector& bytes) {
    return npz.refusal_with(npz.x, {"y.npy", npy_of(type, shape, bytes)});
  };
  expect_parts(labels("<f4", "5,", ByteVector(20)), {"y.npy", "whole number for each image", "'<f4'"});
  expect_parts(labels("<iX8", "5,", ByteVector(40)), {"'<iX8'"});
  expect_parts(labels("|u1", "5, 5", ByteVector(25)), {"2 dimensions", "y.argmax(1)"});
  expect_parts(labels("<i2", "5,", ByteVector(10, 1)), {"the label of sample 0 is above 255"});
  expect_parts(labels("|i1", "5,", {0, 1, 0x80, 3, 4}), {"the label of sample 2 is below 0"});
  expect_parts(labels("<U1", "5,", ByteVector(20)), {"holds texts", "numpy.unique"});
  expect_parts(labels("|u1", "5,", {0, 1, 2, 3, 9}), {"label 9 of sample 4", "5 classes"});
  npz.write("a.npz", zip_of({npz.x}));
  expect_parts(npz.refusal(), {"holds x without y"});
  npz.write("a.npz", zip_of({{"weights.npy", {}}}));
  expect_parts(npz.refusal(), {"holds weights; expected x_train, y_train"});
  npz.write("a.npz", {});
  expect_parts(npz.refusal(), {"no zip archive"});
}

TEST(Npz, EveryTruncationIsRefused) {
  const Npz npz;
  for (const ZipForm form : {ZipForm{}, {.deflated = true}, {.wide = true}}) {
    const ByteVector whole = zip_of({npz.x, npz.y}, form);
    for (size_t size = 0; size < whole.size(); ++size) {
      npz.write("a.npz", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
      EXPECT_NE(npz.refusal(), "") << size;
    }
  }
}

// 100 MB of zeros in 100 KB.
TEST(Npz, ABombIsRefused) {
  const Npz npz;
  const NamedBytes bomb{"x.npy", npy_of("|u1", "1, 10000, 10000", ByteVector(100'000'000))};
  npz.write("a.npz", zip_of({bomb, {"y.npy", npy_of("|u1", "1,", {0})}}, {.deflated = true}));
  expect_parts(npz.refusal(), {"x.npy would have 100000128 bytes"});
}

}  // namespace
}  // namespace starling
