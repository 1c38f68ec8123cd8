// PNG and JPEG images in a folder for each class; the classes count from 0 in the order of their names.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "agent/data/file.h"
#include "agent/data/image.h"
#include "agent/data/source.h"

namespace starling {
namespace {

constexpr size_t kClassesMax = 256;
constexpr size_t kSizesRead = 64;  // of images, to see whether they are colored

bool holds_image(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (is_image_name(entry->path().filename())) return true;
  }
  return false;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> folders;
  if (!is_folder(folder)) return folders;
  for (const std::string& name : names_in(folder)) {
    if (name != "__MACOSX" && is_folder(folder + "/" + name)) folders.push_back(name);
  }
  return folders;
}

bool holds_classes(const std::string& folder) {
  const std::vector<std::string> folders = folders_in(folder);
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& name) { return holds_image(folder + "/" + name); });
}

std::string join(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? text + ", ..." : text;
}

// The files of a part, by sample. An image can be small, so a name takes little more than its letters.
class ImageFiles {
 public:
  explicit ImageFiles(std::string folder) : folder_(std::move(folder)) {}

  size_t count() const { return begins_.size(); }

  std::string path(size_t i) const {
    const auto behind = std::upper_bound(classes_.begin(), classes_.end(), i,
                                         [](size_t sample, const Class& one) { return sample < one.first; });
    const size_t end = i + 1 < begins_.size() ? begins_[i + 1] : names_.size();
    return folder_ + "/" + std::prev(behind)->name + "/" + names_.substr(begins_[i], end - begins_[i]);
  }

  // Returns their number.
  size_t add(const std::string& of_class) {
    std::vector<std::string> found = names_in(folder_ + "/" + of_class);
    std::erase_if(found, [](const std::string& name) { return !is_image_name(name); });
    if (found.empty()) {
      refuse_file(folder_ + "/" + of_class, "a class without PNG or JPEG images",
                  "put images there, or remove the folder on all members");
    }
    classes_.push_back({count(), of_class});
    for (const std::string& name : found) {
      if (names_.size() > UINT32_MAX) refuse_file(folder_, "names of over 4 GiB", "divide the images into shards");
      begins_.push_back(static_cast<uint32_t>(names_.size()));
      names_ += name;
    }
    return found.size();
  }

  void shrink() {
    names_.shrink_to_fit();
    begins_.shrink_to_fit();
  }

 private:
  struct Class {
    size_t first;  // of its samples
    std::string name;
  };
  std::string folder_, names_;    // one name behind the other
  std::vector<uint32_t> begins_;  // of each in names_
  std::vector<Class> classes_;
};

bool any_color(const ImageFiles& files) {
  const size_t step = files.count() / kSizesRead + 1;
  for (size_t i = 0; i < files.count(); i += step) {
    if (read_image_size(files.path(i)).color) return true;
  }
  return false;
}

void check_classes(const std::string& folder, const std::vector<std::string>& classes, const SampleSpec* model) {
  const std::string count = std::to_string(classes.size());
  if (classes.size() > kClassesMax) {
    refuse_file(folder, count + " folders of classes", "use at most " + std::to_string(kClassesMax) + " classes");
  }
  if (classes.size() == 1) refuse_file(folder, "has one folder of a class", "a model needs two classes at least");
  if (model == nullptr || static_cast<int64_t>(classes.size()) == model->classes) return;
  refuse_file(
      folder,
      "has " + count + " folders of classes (" + join(classes) + "), and the model has " +
          std::to_string(model->classes) + " classes",
      "all members need the same folders, in order of their names; a new swarm may have swarm.model.classes: " + count);
}

// The labels count through `classes`, which may be of another part.
SampleSource open_folder(const std::string& folder, const std::string& of_classes, const SampleSpec* model) {
  const auto files = std::make_shared<ImageFiles>(folder);
  const std::vector<std::string> classes = folders_in(of_classes);
  check_classes(of_classes, classes, model);
  std::vector<uint8_t> labels;
  for (const std::string& name : folders_in(folder)) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end()) {
      refuse_file(folder, "has a class " + name + ", and " + of_classes + " has not", "use the same classes in both");
    }
    labels.insert(labels.end(), files->add(name), static_cast<uint8_t>(at - classes.begin()));
  }
  files->shrink();
  labels.shrink_to_fit();
  const ImageSize first = read_image_size(files->path(0));
  const bool gray_or_color = model != nullptr && (model->input[0] == 1 || model->input[0] == 3);
  const int64_t channels = gray_or_color ? model->input[0] : any_color(*files) ? 3 : 1;
  SampleSource source{.place = files->path(0),
                      .shape = {channels, first.height, first.width},
                      .labels = std::move(labels),
                      .classes = classes};
  source.read = [files, shape = source.shape](const std::vector<uint32_t>& indices, const TakePixels& take) {
    std::vector<uint8_t> pixels;
    for (size_t i = 0; i < indices.size(); ++i) {
      read_image(files->path(indices[i]), shape, pixels);
      take(i, pixels.data());
    }
  };
  return source;
}

OpenPart opener(const std::string& folder, const std::string& of_classes) {
  return [=](const SampleSpec* model) { return open_folder(folder, of_classes, model); };
}

}  // namespace

std::vector<FoundData> find_image_folders(const std::string& path) {
  const std::string train = path + "/train";
  FoundData found{"folders of images", path, {}, {}, true};
  if (holds_classes(train)) {
    found.train = opener(train, train);
  } else if (holds_classes(path)) {
    return {{"folders of images", path, opener(path, path), {}, false}};
  }
  for (const char* name : {"/test", "/val", "/valid"}) {
    const std::string test = path + name;
    if (!found.test && holds_classes(test)) found.test = opener(test, found.train ? train : test);
  }
  if (!found.train && !found.test) return {};
  return {found};
}

}  // namespace starling
