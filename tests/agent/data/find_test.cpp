// Data under the names by which people have them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "agent/data/survey.h"
#include "agent/train/model_plan.h"
#include "tests/agent/data/archives.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// Random digits of 3 x 5 pixels in IDX files of any name.
struct Digits {
  explicit Digits(uint64_t rng_seed) : pixels(random_bytes(12 * 15, rng_seed)), labels(random_bytes(12, rng_seed + 1)) {
    for (uint8_t& label : labels) label %= 4;
  }
  ByteVector images() const { return joined(idx_header({12, 3, 5}), pixels); }
  ByteVector pixels, labels;
};

class AnyFolder : public DataFolder {
 public:
  AnyFolder() { model = {.input = {1, 3, 5}, .classes = 4}; }

  DatasetPair load(const std::string& below = "") const { return load_data({.path = path(below)}, model, 1); }
  std::string refusal(const std::string& below = "") const {
    return refusal_of([&] { load(below); });
  }
};

void expect_digits(const Dataset& data, const Digits& digits) {
  EXPECT_EQ(data.shape, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(data.pixels, digits.pixels);
  EXPECT_EQ(data.labels, digits.labels);
}

TEST(FindIdx, UnderAllNamesGzippedOrNot) {
  struct Names { std::string images, labels, folder; };
  const Digits digits(1), tests(3);
  for (const auto& [front, back, test] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"", "-images-idx3-ubyte", "t10k"},
           {"", "-images.idx3-ubyte", "t10k"},
           {"emnist-letters-", "-images-idx3-ubyte", "test"},
           {"MNIST/raw/", "-images-idx3-ubyte", "t10k"},
           {"FashionMNIST/raw/", "-images-idx3-ubyte", "t10k"},
           {"gzip/emnist-digits-", "-images-idx3-ubyte", "test"}}) {
    for (const bool gzip : {false, true}) {
      const AnyFolder folder;
      const auto write = [&, front = front, back = back](const std::string& part, const Digits& what) {
        std::string labels = back;
        labels.replace(1, 6, "labels").replace(labels.find("idx3"), 4, "idx1");
        const std::string gz = gzip ? ".gz" : "";
        folder.write(front + part + back + gz, gzip ? packed(what.images()) : what.images());
        folder.write(front + part + labels + gz, gzip ? packed(idx_labels(what.labels)) : idx_labels(what.labels));
      };
      write("train", digits);
      write(test, tests);
      SCOPED_TRACE(front + back);
      const DatasetPair data = folder.load();
      expect_digits(data.train, digits);
      expect_digits(data.test, tests);
      expect_digits(folder.load(front + "train" + back + (gzip ? ".gz" : "")).train, digits);
    }
  }
}

TEST(FindIdx, OneOfSeveralFamiliesIsNamedByItsFile) {
  const AnyFolder folder;
  const Digits letters(1), digits(5);
  folder.write("emnist-letters-train-images-idx3-ubyte", letters.images());
  folder.write("emnist-letters-train-labels-idx1-ubyte", idx_labels(letters.labels));
  folder.write("emnist-digits-train-images-idx3-ubyte", digits.images());
  folder.write("emnist-digits-train-labels-idx1-ubyte", idx_labels(digits.labels));
  expect_parts(folder.refusal(), {"several data sets", folder.path("emnist-letters-train-images-idx3-ubyte")});
  expect_digits(folder.load("emnist-letters-train-images-idx3-ubyte").train, letters);
  expect_digits(folder.load("emnist-digits-train-labels-idx1-ubyte").train, digits);
}

TEST(FindIdx, ThePlainFileBesideItsGzippedTwinIsRead) {
  const AnyFolder folder;
  const Digits digits(1);
  folder.write("train-images-idx3-ubyte", digits.images());
  folder.write("train-images-idx3-ubyte.gz", {1, 2, 3});
  folder.write("train-labels-idx1-ubyte", idx_labels(digits.labels));
  expect_digits(folder.load().train, digits);
}

TEST(FindIdx, DamagedGzipIsRefused) {
  const AnyFolder folder;
  const Digits digits(1);
  const ByteVector whole = packed(digits.images());
  folder.write("train-labels-idx1-ubyte", idx_labels(digits.labels));
  for (size_t size = 2; size < whole.size() - 8; ++size) {
    folder.write("train-images-idx3-ubyte.gz", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
    expect_parts(folder.refusal(), {folder.path("train-images-idx3-ubyte.gz"), "cut short"});
  }
  ByteVector wrong = whole;
  wrong[wrong.size() / 2] ^= 0xff;
  wrong[wrong.size() - 6] ^= 0xff;  // of the checksum
  folder.write("train-images-idx3-ubyte.gz", wrong);
  EXPECT_NE(refusal_of([&] { survey_data(folder.path(), nullptr, true); }), "");
}

// 100 MB of zeros in 100 KB, and a header that claims more than any packed bytes can hold.
TEST(FindIdx, ABombIsRefusedBeforeItIsMemory) {
  const AnyFolder folder;
  folder.write("train-labels-idx1-ubyte", idx_labels({0}));
  ByteVector bomb = idx_header({1, 10'000, 10'000});
  bomb.resize(bomb.size() + 100'000'000);
  folder.write("train-images-idx3-ubyte.gz", packed(bomb));
  expect_parts(folder.refusal(), {"cut short", "announces 100000000 bytes", "holds at most 67108848"});
  bomb.resize(16);
  bomb = joined(idx_header({1, 0xffffffff, 0xffffffff}), bomb);
  folder.write("train-images-idx3-ubyte.gz", packed(bomb));
  expect_parts(folder.refusal(), {"cut short", "at most 67108848"});
}

TEST(FindText, AFileOrAFolderOfThem) {
  AnyFolder folder;
  folder.model = {.input = {1, 1, 3}, .classes = 128};
  folder.write("books/b.txt", bytes_of("stuvwxy"));
  folder.write("books/a.txt", bytes_of("abcdefgh"));
  const Dataset both = folder.load("books").train;
  EXPECT_EQ(both.pixels, bytes_of("abcdefstuvwx"));
  EXPECT_EQ(both.labels, bytes_of("dgvy"));
  EXPECT_EQ(folder.load("books/b.txt").train.labels, bytes_of("vy"));
  const DataConfig apart{.path = folder.path("books"), .test_path = folder.path("books/b.txt")};
  EXPECT_EQ(load_data(apart, folder.model, 1).test.labels, bytes_of("vy"));
  folder.write("books/c.txt", bytes_of("\xff\xfeh\0i\0"));
  folder.write("books/c.txt", {0xff, 0xfe, 'h', 0, 'i', 0, 'j', 0});
  folder.model.classes = 256;
  expect_parts(folder.refusal("books"), {"c.txt: byte 3 is 0, which no text has", "UTF-8"});
}

TEST(FindData, ARefusalSaysWhatIsThere) {
  const AnyFolder folder;
  expect_parts(folder.refusal("none"), {folder.path("none") + ": no such file or folder", "--data"});
  folder.write("table.csv", bytes_of("1,2"));
  expect_parts(folder.refusal("table.csv"), {"found a file table.csv", "expected IDX"});
  folder.write("more/table.csv", {});
  folder.write("more/picture.png", {});
  folder.write("more/readme.txt", {});
  fs::create_directories(folder.path("more/empty"));
  expect_parts(folder.refusal("more"), {"found 1 folder (empty), 1 .csv, 1 .png, 1 .txt;", "a folder for each class"});
}

TEST(FindData, TestsAloneAreNoDataToTrainOn) {
  const AnyFolder folder;
  const Digits digits(1);
  folder.write("t10k-images-idx3-ubyte", digits.images());
  folder.write("t10k-labels-idx1-ubyte", idx_labels(digits.labels));
  expect_parts(folder.refusal(), {"holds IDX to evaluate on", "--test-data"});
}

TEST(Survey, SaysWhatWasFoundAndAModelThatTakesIt) {
  const AnyFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(4, 8, 8));
  folder.write("train-labels-idx1-ubyte", idx_labels({0, 2, 2, 6}));
  const DataSurvey survey = survey_data(folder.path(), nullptr, true);
  EXPECT_EQ(survey.lines,
            (std::vector<std::string>{"IDX, " + folder.path("train-images-idx3-ubyte"),
                                      "train: 4 samples of [1, 8, 8], 3 labels, 1 to 2 of each",
                                      "test: none; agent.data.hold_out: 0.1 judges the model by a tenth of the "
                                      "samples"}));
  EXPECT_FALSE(survey.has_test);
  EXPECT_EQ(survey.model, "{kind: mlp, input: [1, 8, 8], classes: 7, hidden: [128]}");
  SampleSpec digits;
  expect_parts(refusal_of([&] { survey_data(folder.path(), &digits, true); }),
               {"[1, 8, 8]", "takes [1, 28, 28]", "set swarm.model: " + survey.model});
}

TEST(Survey, SaysWhereNoSampleHasTheFirstLabel) {
  const AnyFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(3, 8, 8));
  folder.write("train-labels-idx1-ubyte", idx_labels({1, 2, 3}));
  const DataSurvey survey = survey_data(folder.path(), nullptr, true);
  expect_parts(survey.remark, {"no sample has label 0", "subtract 1 from each label"});
  EXPECT_NE(std::find(survey.lines.begin(), survey.lines.end(), survey.remark), survey.lines.end());
}

// The words of fitting_model() and what a model really needs are of two rooms.
TEST(Survey, EachModelThatItNamesExists) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> cases = {
      {{1, 8, 8}, "mlp"}, {{3, 13, 40}, "mlp"}, {{1, 14, 14}, "cnn"}, {{3, 32, 32}, "cnn"}, {{1, 1, 64}, "lstm"}};
  for (const auto& [shape, kind] : cases) {
    EXPECT_TRUE(fitting_model(shape, 10).starts_with("{kind: " + kind + ","));
    EXPECT_GT(plan_model({.kind = kind, .input = shape, .classes = 10}).param_count, 0u);
  }
}

TEST(FindText, TheLastBytesOfItsSamplesAreNoLabelsOfInterest) {
  const AnyFolder folder;
  folder.write("a.txt", ByteVector(1000, 'x'));
  const DataSurvey survey = survey_data(folder.path(), nullptr, false);
  ASSERT_EQ(survey.lines.size(), 3u);
  EXPECT_EQ(survey.lines[1], "train: 15 samples of [1, 1, 64]");
}

}  // namespace
}  // namespace starling
