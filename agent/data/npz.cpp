// NumPy's archives of two or four arrays: images and labels, of both parts or of one.
#include <algorithm>
#include <filesystem>
#include <span>

#include "agent/data/file.h"
#include "agent/data/npy.h"
#include "agent/data/source.h"
#include "agent/data/zip.h"

namespace starling {
namespace {

struct ArrayNames { const char *images, *labels; };

constexpr ArrayNames kTrain[] = {
    {"x_train", "y_train"}, {"train_images", "train_labels"}, {"x", "y"}, {"images", "labels"}};
constexpr ArrayNames kTest[] = {{"x_test", "y_test"}, {"test_images", "test_labels"}};

const ByteRange* find_member(const std::vector<ByteRange>& members, const std::string& name) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const ByteRange& member) { return member.member == name + ".npy"; });
  return found == members.end() ? nullptr : &*found;
}

std::vector<uint8_t> read_labels(const NpyArray& array) {
  const bool flat = array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
  const std::string& type = array.type;
  if (type.size() != 3 || (type[1] != 'i' && type[1] != 'u') || type[0] == '>' || !flat) {
    refuse_file(array.where.name(),
                "expected one whole number for each image, found type '" + type + "' in " +
                    std::to_string(array.shape.size()) + " dimensions",
                flat ? "save the labels as y.astype('uint8')"
                     : "save the labels as y.argmax(1).astype('uint8') where y has a column for each class");
  }
  const auto width = static_cast<size_t>(type[2] - '0');
  std::vector<uint8_t> labels(static_cast<size_t>(array.shape[0]));
  ByteStream stream(array.where);
  stream.seek(array.first);
  for (size_t i = 0; i < labels.size(); ++i) {
    uint8_t bytes[8];
    stream.read(bytes, width);
    const bool negative = type[1] == 'i' && bytes[width - 1] >= 0x80;
    if (negative || std::any_of(bytes + 1, bytes + width, [](uint8_t byte) { return byte != 0; })) {
      refuse_file(array.where.name(),
                  "the label of sample " + std::to_string(i) + " is " + (negative ? "below 0" : "above 255"),
                  "number the classes from 0, at most 256 of them");
    }
    labels[i] = bytes[0];
  }
  return labels;
}

// Where the channels stand: nowhere, behind the count, or last.
std::vector<int64_t> image_shape(const NpyArray& array, bool* last) {
  const std::vector<uint64_t>& shape = array.shape;
  *last = shape.size() == 4 && (shape[3] == 1 || shape[3] == 3);
  const bool first = !*last && shape.size() == 4 && (shape[1] == 1 || shape[1] == 3);
  if (array.type != "|u1" || (shape.size() != 3 && !*last && !first)) {
    std::string sizes;
    for (const uint64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    refuse_file(array.where.name(),
                "expected images of bytes, (count, height, width) and 1 or 3 channels behind or before height; found "
                "type '" +
                    array.type + "', shape (" + sizes + ")",
                array.type == "|u1"
                    ? "reshape x to (count, height, width, channels), and leave out an alpha channel"
                    : "save bytes: x.astype('uint8') where x is from 0 to 255, (x * 255).astype('uint8') "
                      "where it is from 0 to 1");
  }
  std::vector<int64_t> sizes(shape.begin() + 1, shape.end());
  if (sizes.size() == 2) sizes.insert(sizes.begin(), 1);
  if (*last) std::rotate(sizes.begin(), sizes.begin() + 2, sizes.end());
  return sizes;
}

// Samples of one row stand as one column: an image with one row is how texts come, of which a model reads no labels.
SampleSource open_arrays(const ByteRange& image_range, const ByteRange& label_range, const SampleSpec* model) {
  const NpyArray images = open_npy(image_range), labels = open_npy(label_range);
  bool channels_last = false;
  SampleSource source{.place = image_range.name(), .shape = image_shape(images, &channels_last)};
  const bool is_row = source.shape[0] == 1 && source.shape[1] == 1;
  if (is_row && (model == nullptr || model->input != source.shape)) std::swap(source.shape[1], source.shape[2]);
  const size_t elements = source.sample_elements(), channels = static_cast<size_t>(source.shape[0]);
  if (elements == 0) refuse_file(source.place, "holds no samples", "use a file that does");
  source.labels = read_labels(labels);
  if (source.labels.size() != images.shape[0]) {
    refuse_file(source.place,
                std::to_string(source.labels.size()) + " labels for " + std::to_string(images.shape[0]) + " images",
                "save both of the same samples");
  }
  source.read = [parts = std::vector<Records>{{images.where, images.first, elements, images.shape[0]}}, elements,
                 channels = channels_last ? channels : 1](const std::vector<uint32_t>& indices,
                                                          const TakePixels& take) {
    std::vector<uint8_t> planes(elements);
    read_records(parts, elements, indices, [&](size_t i, const uint8_t* mixed) {
      split_channels(mixed, elements / channels, channels, planes.data());
      take(i, planes.data());
    });
  };
  return source;
}

OpenPart opener(const std::vector<ByteRange>& members, const ArrayNames& names, const std::string& path) {
  const ByteRange* images = find_member(members, names.images);
  const ByteRange* labels = find_member(members, names.labels);
  if (images == nullptr && labels == nullptr) return {};
  if (images == nullptr || labels == nullptr) {
    const bool lacks_images = images == nullptr;
    refuse_file(path,
                std::string("holds ") + (lacks_images ? names.labels : names.images) + " without " +
                    (lacks_images ? names.images : names.labels),
                "save both");
  }
  return [images = *images, labels = *labels](const SampleSpec* model) { return open_arrays(images, labels, model); };
}

OpenPart first_of(const std::vector<ByteRange>& members, std::span<const ArrayNames> choices, const std::string& path) {
  for (const ArrayNames& names : choices) {
    OpenPart open = opener(members, names, path);
    if (open) return open;
  }
  return {};
}

FoundData open_archive(const std::string& path) {
  const std::vector<ByteRange> members = list_zip(path);
  FoundData found{"NumPy archive", path, first_of(members, kTrain, path), first_of(members, kTest, path)};
  found.is_divided = static_cast<bool>(found.test);
  if (found.train || found.test) return found;
  std::string names;
  for (const ByteRange& member : std::span(members).first(std::min<size_t>(members.size(), 8))) {
    names += (names.empty() ? "" : ", ") + std::filesystem::path(member.member).stem().string();
  }
  refuse_file(path, "holds " + (names.empty() ? "nothing" : names),
              "expected x_train, y_train, x_test and y_test, or x and y, or images and labels");
}

}  // namespace

// The file, or the archives of the folder.
std::vector<FoundData> find_npz(const std::string& path) {
  std::vector<FoundData> found;
  if (!is_folder(path)) {
    if (has_ending(path, ".npz")) found.push_back(open_archive(path));
    return found;
  }
  for (const std::string& name : names_in(path)) {
    if (has_ending(name, ".npz")) found.push_back(open_archive(path + "/" + name));
  }
  return found;
}

}  // namespace starling
