#include "agent/data/source.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "agent/data/file.h"
#include "agent/data/survey.h"
#include "kernels/check.h"

namespace starling {

size_t SampleSource::sample_elements() const {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return elements;
}

std::string print_shape(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

int64_t classes_of(const SampleSource& source) {
  return std::max(2, 1 + *std::max_element(source.labels.begin(), source.labels.end()));
}

std::vector<uint32_t> all_indices(const SampleSource& source) {
  std::vector<uint32_t> all(source.labels.size());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

SampleSource open_part(const OpenPart& open, const SampleSpec* model) {
  SampleSource source = open(model);
  if (source.labels.empty()) refuse_file(source.place, "holds no samples", "use data that do");
  if (source.labels.size() > UINT32_MAX) refuse_file(source.place, "more than 2^32 samples", "divide them");
  if (model == nullptr) return source;
  if (source.shape != model->input) {
    refuse_file(source.place,
                "its images are " + print_shape(source.shape) + " but the model takes " + print_shape(model->input),
                "use other data; a new swarm may set swarm.model: " + fitting_model(source.shape, classes_of(source)));
  }
  for (size_t i = 0; i < source.labels.size(); ++i) {
    if (source.labels[i] < model->classes) continue;
    refuse_file(source.place,
                "label " + std::to_string(source.labels[i]) + " of sample " + std::to_string(i) +
                    " is outside the model's " + std::to_string(model->classes) + " classes",
                "use other data; a new swarm may have swarm.model.classes: " + std::to_string(classes_of(source)));
  }
  return source;
}

std::string fitting_model(const std::vector<int64_t>& shape, int64_t classes) {
  constexpr int64_t kConvolved = 14;  // the least side of a cnn
  const bool text = shape[0] == 1 && shape[1] == 1, small = std::min(shape[1], shape[2]) < kConvolved;
  const std::string kind = text ? "lstm" : small ? "mlp" : "cnn";
  const std::string width = text || small ? "hidden: [128]" : shape[0] == 1 ? "channels: 8" : "channels: 16";
  return "{kind: " + kind + ", input: " + print_shape(shape) + ", classes: " + std::to_string(classes) + ", " + width +
         "}";
}

void split_channels(const uint8_t* mixed, size_t pixels, size_t channels, uint8_t* planes) {
  for (size_t pixel = 0; pixel < pixels; ++pixel) {
    for (size_t channel = 0; channel < channels; ++channel) planes[channel * pixels + pixel] = *mixed++;
  }
}

void read_records(const std::vector<Records>& parts, size_t bytes, const std::vector<uint32_t>& indices,
                  const TakePixels& take) {
  std::optional<ByteStream> stream;
  std::vector<uint8_t> record(bytes);
  size_t part = 0;
  uint64_t before = 0;  // records in the parts before
  for (size_t i = 0; i < indices.size(); ++i) {
    while (indices[i] - before >= parts.at(part).count) before += parts[part++].count;
    const Records& records = parts[part];
    const uint64_t from = records.where.begin + records.first + (indices[i] - before) * records.stride;
    if (!stream || !stream->reaches(records.where, from)) stream.emplace(records.where);
    stream->seek(from);
    stream->read(record.data(), bytes);
    take(i, record.data());
  }
}

}  // namespace starling
