// Images in a folder for each class, written here by the libraries that read them.
#include <gtest/gtest.h>

#include <filesystem>

#include "agent/data/survey.h"
#include "tests/agent/data/image_files.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kWidth = kImageWidth, kHeight = kImageHeight;

ByteVector planes_of(const ByteVector& pixels, size_t channels) {
  ByteVector planes;
  for (size_t channel = 0; channel < channels; ++channel) {
    for (size_t at = channel; at < pixels.size(); at += channels) planes.push_back(pixels[at]);
  }
  return planes;
}

class Images : public DataFolder {
 public:
  Images() { model = {.input = {1, kHeight, kWidth}, .classes = 2}; }

  DatasetPair load(const std::string& below = "") const { return load_data({.path = path(below)}, model, 1); }
  std::string refusal(const std::string& below = "") const {
    return refusal_of([&] { load(below); });
  }
  static ByteVector gray(uint64_t rng_seed) { return random_bytes(kWidth * kHeight, rng_seed); }
  static ByteVector gray_png(uint64_t rng_seed) { return png_of(gray(rng_seed), PNG_FORMAT_GRAY); }
};

TEST(ImageFolders, ClassesCountInTheOrderOfTheirNames) {
  const Images images;
  images.write("dog/b.png", Images::gray_png(3));
  images.write("dog/a.PNG", Images::gray_png(2));
  images.write("cat/z.png", Images::gray_png(1));
  images.write("cat/notes.txt", {1});
  images.write(".cache/x.png", {1});
  images.write("__MACOSX/x.png", {1});
  images.write("LICENSE.txt", bytes_of("free"));
  const Dataset data = images.load().train;
  EXPECT_EQ(data.labels, (ByteVector{0, 1, 1}));
  EXPECT_EQ(summarize(data), "3 samples, labels 0 cat, 1 dog");
  EXPECT_EQ(data.pixels, joined(joined(Images::gray(1), Images::gray(2)), Images::gray(3)));
  const DataSurvey survey = survey_data(images.path(), nullptr, true);
  EXPECT_EQ(survey.lines[1], "classes: 0 cat, 1 dog");
  EXPECT_EQ(survey.lines[2], "train: 3 samples of [1, 4, 6], 2 labels, 1 to 2 of each");
}

TEST(ImageFolders, PartsLieBeneath) {
  for (const std::string name : {"test", "val"}) {
    const Images images;
    images.write("train/a/1.png", Images::gray_png(1));
    images.write("train/b/1.png", Images::gray_png(2));
    images.write(name + "/b/1.png", Images::gray_png(3));
    const DatasetPair data = images.load();
    EXPECT_EQ(data.train.labels, (ByteVector{0, 1}));
    EXPECT_EQ(data.test.labels, (ByteVector{1}));
    EXPECT_EQ(data.test.pixels, Images::gray(3));
    images.write(name + "/c/1.png", Images::gray_png(4));
    expect_parts(images.refusal(), {name + ": has a class c, and", "/train has not"});
  }
}

TEST(ImageFolders, AreJudgedOnWithoutTrainingFiles) {
  for (const std::string below : {"test/", ""}) {
    const Images images;
    images.write(below + "a/1.png", Images::gray_png(1));
    images.write(below + "b/1.png", Images::gray_png(2));
    bool is_training = true;
    const Dataset data = load_judged_data(images.path(), images.model, 1, &is_training);
    EXPECT_EQ(data.labels, (ByteVector{0, 1}));
    EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(is_training, below.empty()) << "nothing says that these are test files";
    if (!below.empty()) expect_parts(images.refusal(), {"to evaluate on, and none to train on"});
  }
}

TEST(ImageFolders, EachKindOfPngHasItsValues) {
  Images images;
  images.model.input = {3, kHeight, kWidth};
  const ByteVector rgb = random_bytes(3 * kWidth * kHeight, 1);
  ByteVector rgba;
  for (size_t i = 0; i < rgb.size(); ++i) {
    rgba.push_back(rgb[i]);
    if (i % 3 == 2) rgba.push_back(255);
  }
  images.write("a/1.png", png_of(rgb, PNG_FORMAT_RGB));
  images.write("b/2.png", png_of(rgba, PNG_FORMAT_RGBA));
  images.write("b/3.png", Images::gray_png(2));
  const ByteVector gray = Images::gray(2);
  EXPECT_EQ(images.load().train.pixels,
            joined(joined(planes_of(rgb, 3), planes_of(rgb, 3)), joined(joined(gray, gray), gray)));
  EXPECT_EQ(survey_data(images.path(), nullptr, true).shape, images.model.input) << "one is in color";
  images.model.input[0] = 1;
  const ByteVector grays = images.load().train.pixels;
  EXPECT_EQ(ByteVector(grays.end() - kWidth * kHeight, grays.end()), gray);
}

// JPEG is not exact: smooth images come back within a few levels.
TEST(ImageFolders, JpegsAreReadInColorAndGray) {
  Images images;
  images.model.input = {3, 16, 24};
  ByteVector rgb, gray;
  for (int i = 0; i < 16 * 24; ++i) {
    for (const int value : {i / 24 * 12, i % 24 * 8, 100}) rgb.push_back(static_cast<uint8_t>(value));
    gray.push_back(static_cast<uint8_t>(i / 24 * 10));
  }
  images.write("a/1.jpg", jpeg_of(rgb, 3, 24, 16));
  images.write("b/2.jpeg", jpeg_of(gray, 1, 24, 16));
  const ByteVector expected = joined(planes_of(rgb, 3), joined(joined(gray, gray), gray));
  const ByteVector pixels = images.load().train.pixels;
  ASSERT_EQ(pixels.size(), expected.size());
  for (size_t i = 0; i < pixels.size(); ++i) EXPECT_NEAR(pixels[i], expected[i], 6) << i;
}

TEST(ImageFolders, OtherClassesThanTheModelsAreRefused) {
  Images images;
  images.write("cat/1.png", Images::gray_png(1));
  expect_parts(images.refusal(), {"has one folder of a class"});
  images.write("dog/1.png", Images::gray_png(1));
  images.model.classes = 3;
  expect_parts(images.refusal(), {"has 2 folders of classes (cat, dog)", "3 classes", "swarm.model.classes: 2"});
  images.model.classes = 2;
  fs::create_directories(images.path("cow"));
  images.model.classes = 3;
  expect_parts(images.refusal(), {images.path("cow") + ": a class without PNG or JPEG images"});
}

TEST(ImageFolders, AnotherSizeIsRefused) {
  Images images;
  images.write("a/1.png", Images::gray_png(1));
  images.write("b/1.png", png_of(random_bytes(20, 1), PNG_FORMAT_GRAY, 5, 4));
  expect_parts(images.refusal(), {"b/1.png: 5x4 pixels", "have 6x4", "one size"});
  images.model.input = {1, 28, 28};
  expect_parts(images.refusal(), {"a/1.png", "[1, 4, 6]", "[1, 28, 28]", "{kind: mlp, input: [1, 4, 6]"});
}

// The size stands at bytes 16 to 23 of a PNG; its checksum is made right again.
TEST(ImageFolders, APngThatClaimsToBeHugeIsRefused) {
  const Images images;
  ByteVector huge = Images::gray_png(1);
  for (const size_t at : {16, 20}) {
    huge[at] = huge[at + 1] = 0;
    huge[at + 2] = 60'000 >> 8;
    huge[at + 3] = 60'000 & 0xff;
  }
  const uint64_t sum = crc32(0, huge.data() + 12, 17);
  for (int i = 0; i < 4; ++i) huge[29 + static_cast<size_t>(i)] = static_cast<uint8_t>(sum >> (24 - 8 * i));
  images.write("a/1.png", huge);
  images.write("b/1.png", Images::gray_png(1));
  expect_parts(images.refusal(), {"a/1.png: claims 60000x60000 pixels", "at most 4096x4096"});
}

TEST(ImageFolders, DamageIsRefusedAndEndsNothing) {
  Images images;
  images.write("a/1.png", Images::gray_png(1));
  const ByteVector png = Images::gray_png(2);
  const auto refusal = [&](const std::string& name, const ByteVector& bytes) {
    fs::remove_all(images.path("b"));
    images.write("b/" + name, bytes);
    return images.refusal();
  };
  for (size_t size = 0; size < png.size() - 12; ++size) {  // without its last chunk an image is whole
    EXPECT_NE(refusal("2.png", {png.begin(), png.begin() + static_cast<ptrdiff_t>(size)}), "") << size;
  }
  expect_parts(refusal("2.png", {png.begin(), png.begin() + 40}), {"b/2.png: libpng: ", "replace or remove it"});
  expect_parts(refusal("2.png", bytes_of("GIF89a......")), {"b/2.png: neither PNG nor JPEG"});
  const ByteVector jpeg = jpeg_of(random_bytes(48 * 48, 1), 1, 48, 48);
  images.write("a/1.png", png_of(random_bytes(48 * 48, 1), PNG_FORMAT_GRAY, 48, 48));
  images.model.input = {1, 48, 48};
  EXPECT_EQ(refusal("2.jpg", jpeg), "");
  for (size_t size = 0; size + 30 < jpeg.size(); size += 7) {
    expect_parts(refusal("2.jpg", {jpeg.begin(), jpeg.begin() + static_cast<ptrdiff_t>(size)}), {"b/2.jpg: "});
  }
}

// The first scan of a progressive JPEG again and again: some bytes each, and the work of a whole image.
TEST(ImageFolders, AJpegOfManyScansIsRefused) {
  Images images;
  images.model.input = {1, 48, 48};
  const ByteVector jpeg = jpeg_of(random_bytes(48 * 48, 1), 1, 48, 48, true);
  images.write("a/1.jpg", jpeg);
  images.write("b/1.jpg", jpeg);
  EXPECT_EQ(images.refusal(), "");
  size_t begin = 0, end = 0;  // of the first scan
  for (size_t i = 0; i + 1 < jpeg.size() && end == 0; ++i) {
    if (jpeg[i] != 0xff || jpeg[i + 1] == 0) continue;
    if (begin > 0) end = i;
    if (begin == 0 && jpeg[i + 1] == 0xda) begin = i;
  }
  const auto at = [&jpeg](size_t i) { return jpeg.begin() + static_cast<ptrdiff_t>(i); };
  ByteVector longer(jpeg.begin(), at(end));
  for (int i = 0; i < 200; ++i) longer.insert(longer.end(), at(begin), at(end));
  longer.insert(longer.end(), at(end), jpeg.end());
  images.write("b/1.jpg", longer);
  expect_parts(images.refusal(), {"b/1.jpg: libjpeg: more than 100 scans"});
}

}  // namespace
}  // namespace starling
