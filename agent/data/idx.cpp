// IDX, the format of the MNIST family: {0, 0, type 8 = unsigned byte, number of dimensions}, one big-endian
// u32 per dimension, then the bytes. No number in the file is used before it is compared with the file's size.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "agent/data/file.h"
#include "agent/data/source.h"

namespace starling {
namespace {

struct IdxFile {
  ByteRange where;
  std::vector<uint32_t> sizes;
  uint64_t header_bytes = 0, body_bytes = 0;
};

uint32_t read_big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

IdxFile open_idx(const std::string& path, uint8_t dimensions_min, uint8_t dimensions_max) {
  IdxFile idx{.where = whole_file(path)};
  ByteStream stream(idx.where);
  const std::string again = "fetch the file again";
  uint8_t header[4 + 4 * 4] = {};
  const size_t got = stream.read_some(header, 4);
  if (got < 4) {
    refuse_file(path, "cut short: " + std::to_string(got) + " bytes, an IDX header has at least 8", again);
  }
  const uint8_t dimensions = header[3];
  if (header[0] != 0 || header[1] != 0 || header[2] != 8 || dimensions < dimensions_min ||
      dimensions > dimensions_max) {
    refuse_file(
        path,
        fmt::format("wrong magic number 0x{:08x}, expected 0x{:08x}", read_big_endian(header), 0x800u + dimensions_min),
        "check that this is the IDX file its name says");
  }
  idx.header_bytes = 4 + 4u * dimensions;
  const size_t more = stream.read_some(header + 4, 4u * dimensions);
  if (more < 4u * dimensions) {
    refuse_file(path,
                "cut short: " + std::to_string(4 + more) + " bytes, its header has " + std::to_string(idx.header_bytes),
                again);
  }
  idx.body_bytes = 1;
  for (int i = 0; i < dimensions; ++i) {
    idx.sizes.push_back(read_big_endian(header + 4 + 4 * i));
    if (__builtin_mul_overflow(idx.body_bytes, uint64_t{idx.sizes.back()}, &idx.body_bytes)) {
      idx.body_bytes = std::numeric_limits<uint64_t>::max() / 2;
      break;
    }
  }
  const uint64_t there = idx.where.bytes - std::min(idx.where.bytes, idx.header_bytes);
  const bool is_short = there < idx.body_bytes, packed = idx.where.packing != Packing::kNone;
  if (is_short || (there > idx.body_bytes && !packed)) {
    refuse_file(path,
                std::string(is_short ? "cut short" : "too long") + ": its header announces " +
                    std::to_string(idx.body_bytes) + " bytes of data, the file holds " + (packed ? "at most " : "") +
                    std::to_string(there),
                again);
  }
  return idx;
}

SampleSource open_pair(const std::string& image_path, const std::string& label_path) {
  const IdxFile images = open_idx(image_path, 3, 4), labels = open_idx(label_path, 1, 1);
  if (images.sizes[0] != labels.sizes[0]) {
    refuse_file(label_path,
                std::to_string(labels.sizes[0]) + " labels for the " + std::to_string(images.sizes[0]) + " images of " +
                    image_path,
                "fetch both files from the same place");
  }
  if (images.body_bytes == 0) refuse_file(image_path, "holds no samples", "use a file that does");
  SampleSource source{.place = image_path};
  if (images.sizes.size() == 3) source.shape.push_back(1);
  source.shape.insert(source.shape.end(), images.sizes.begin() + 1, images.sizes.end());
  source.labels.resize(labels.body_bytes);
  ByteStream stream(labels.where);
  stream.seek(labels.header_bytes);
  stream.read(source.labels.data(), source.labels.size());
  const uint64_t stride = images.body_bytes / images.sizes[0];
  source.read = [parts = std::vector<Records>{{images.where, images.header_bytes, stride, images.sizes[0]}}, stride](
                    const std::vector<uint32_t>& indices, const TakePixels& take) {
    read_records(parts, static_cast<size_t>(stride), indices, take);
  };
  return source;
}

// What the name of a file says: emnist-letters-train-images-idx3-ubyte.gz, also train-images.idx3-ubyte.
struct IdxName {
  std::string family;  // "emnist-letters"; may be empty
  bool is_test = false, has_labels = false;
};

std::optional<IdxName> parse_name(std::string name) {
  const auto take = [&name](const std::string& ending) {
    if (!has_ending(name, ending)) return false;
    name.resize(name.size() - ending.size());
    return true;
  };
  std::replace(name.begin(), name.end(), '.', '-');
  take("-gz");
  IdxName parsed;
  parsed.has_labels = take("-labels-idx1-ubyte");
  if (!parsed.has_labels && !take("-images-idx3-ubyte")) return std::nullopt;
  parsed.is_test = take("t10k") || take("test");
  if (!parsed.is_test && !take("train")) return std::nullopt;
  if (!name.empty() && !take("-")) return std::nullopt;
  parsed.family = name;
  return parsed;
}

// "train-images.idx3-ubyte" -> "train-labels.idx1-ubyte", and back.
std::string other_of(std::string name, bool has_labels) {
  for (const auto& [here, there] : {std::pair("labels", "images"), std::pair("idx1", "idx3")}) {
    const std::string from = has_labels ? here : there;
    const size_t at = name.rfind(from);
    if (at != std::string::npos) name.replace(at, from.size(), has_labels ? there : here);
  }
  return name;
}

struct IdxPair {
  std::string images, labels;

  OpenPart opener() const {
    if (images.empty() && labels.empty()) return {};
    return [images = images.empty() ? other_of(labels, true) : images,
            labels = labels.empty() ? other_of(images, false) : labels](const SampleSpec*) {
      return open_pair(images, labels);
    };
  }
};

struct IdxSet { IdxPair train, test; };

// By family. Of a file and its gzipped twin the plain one is read.
std::map<std::string, IdxSet> sets_in(const std::string& folder) {
  std::map<std::string, IdxSet> sets;
  for (const std::string& name : names_in(folder)) {
    const std::optional<IdxName> parsed = parse_name(name);
    if (!parsed) continue;
    IdxSet& set = sets[parsed->family];
    IdxPair& pair = parsed->is_test ? set.test : set.train;
    std::string& path = parsed->has_labels ? pair.labels : pair.images;
    if (path.empty()) path = folder + "/" + name;
  }
  return sets;
}

void add_sets(const std::string& folder, const std::optional<std::string>& family, std::vector<FoundData>& found) {
  for (const auto& [name, set] : sets_in(folder)) {
    if (family && *family != name) continue;
    const IdxPair& any = set.train.opener() ? set.train : set.test;
    const std::string place = any.images.empty() ? any.labels : any.images;
    found.push_back({"IDX", place, set.train.opener(), set.test.opener(), true});
  }
}

}  // namespace

// In the folder; else as torchvision leaves them, one or two folders below it (MNIST/raw).
std::vector<FoundData> find_idx(const std::string& path) {
  std::vector<FoundData> found;
  if (!is_folder(path)) {
    const std::filesystem::path file(path);
    const std::optional<IdxName> name = parse_name(file.filename());
    if (name) add_sets(file.has_parent_path() ? file.parent_path().string() : ".", name->family, found);
    return found;
  }
  add_sets(path, std::nullopt, found);
  if (!found.empty()) return found;
  for (const std::string& name : names_in(path)) {
    for (const std::string& below : {path + "/" + name, path + "/" + name + "/raw"}) {
      if (is_folder(below)) add_sets(below, std::nullopt, found);
    }
  }
  return found;
}

}  // namespace starling
