// A data set on disk: what it holds, and a way to read the pixels of the samples that an agent takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/data/byte_stream.h"
#include "agent/data/options.h"

namespace starling {

// Takes the pixels of the i-th sample that was asked for; they are valid during the call.
using TakePixels = std::function<void(size_t i, const uint8_t* pixels)>;

// The samples of one part, for training or for evaluation. All labels are in memory, and no pixels.
struct SampleSource {
  std::string place;           // file or folder that messages name
  std::vector<int64_t> shape;  // channels, height, width of one sample
  std::vector<uint8_t> labels;
  std::vector<std::string> classes;  // by label, where folders name them
  // Reads these samples, ascending, one after the other. Throws std::runtime_error that names the file.
  std::function<void(const std::vector<uint32_t>& indices, const TakePixels& take)> read;

  size_t sample_elements() const;
};

// Opens a part. The model says how long a run of text is, and whether images are read in color; null: what suits the
// files. Throws std::runtime_error naming the file, what is wrong and what to do.
using OpenPart = std::function<SampleSource(const SampleSpec* model)>;

// Opens a part and checks it: at least one sample, and shape and labels that fit the model. Throws as the part does.
SampleSource open_part(const OpenPart& open, const SampleSpec* model);

// All of its samples.
std::vector<uint32_t> all_indices(const SampleSource& source);

// One data set, known by the names of its files.
struct FoundData {
  std::string format;       // for people: "IDX"
  std::string place;        // what --data can name
  OpenPart train, test;     // empty: the set has no such part
  bool is_divided = false;  // false: nothing says train or test, so `train` serves as either
};

// The data set at this path, a file or a folder. Throws std::runtime_error: there is none, with what is there instead,
// or there are several.
FoundData find_data(const std::string& path);

// The finders of formats. `path` is a folder, or for all but folders of images a file; nothing found: empty.
std::vector<FoundData> find_idx(const std::string& path);
std::vector<FoundData> find_cifar(const std::string& path);
std::vector<FoundData> find_image_folders(const std::string& path);
std::vector<FoundData> find_npz(const std::string& path);
std::vector<FoundData> find_text(const std::string& path);

// For people: "[1, 28, 28]".
std::string print_shape(const std::vector<int64_t>& shape);

// A class more than the largest label, and two at least.
int64_t classes_of(const SampleSource& source);

// Samples that lie one behind the other: `first` bytes from the beginning, `stride` bytes from one to the next.
struct Records {
  ByteRange where;
  uint64_t first = 0, stride = 0, count = 0;
};

// From pixel after pixel to channel after channel.
void split_channels(const uint8_t* mixed, size_t pixels, size_t channels, uint8_t* planes);

// Reads `bytes` of each of these records, which are numbered through all parts.
void read_records(const std::vector<Records>& parts, size_t bytes, const std::vector<uint32_t>& indices,
                  const TakePixels& take);

}  // namespace starling
