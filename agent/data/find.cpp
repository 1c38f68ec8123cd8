// Which data set lies where a person points.
#include <algorithm>
#include <filesystem>
#include <map>

#include "agent/data/file.h"
#include "agent/data/source.h"

namespace starling {
namespace {

constexpr size_t kNamesShown = 6;

// "3 folders (a, b, c), 200 .png, 1 .csv".
std::string describe_content(const std::string& path) {
  if (!is_folder(path)) return "a file " + std::filesystem::path(path).filename().string();
  std::map<std::string, size_t> endings;
  size_t folders = 0;
  std::string names, text;
  for (const std::string& name : names_in(path)) {
    if (is_folder(path + "/" + name)) {
      if (++folders <= kNamesShown) names += (names.empty() ? "" : ", ") + name;
    } else {
      const std::string ending = std::filesystem::path(name).extension();
      ++endings[ending.empty() ? "without an ending" : ending];
    }
  }
  if (folders > 0) {
    text = std::to_string(folders) + (folders == 1 ? " folder (" : " folders (") + names +
           (folders > kNamesShown ? ", ...)" : ")");
  }
  size_t shown = 0;
  for (const auto& [ending, count] : endings) {
    if (++shown <= kNamesShown) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + ending;
  }
  return text.empty() ? "nothing" : text;
}

[[noreturn]] void refuse_several(const std::string& path, const std::vector<FoundData>& found) {
  std::string places;
  for (size_t i = 0; i < std::min(found.size(), kNamesShown); ++i) {
    places += (i == 0 ? "" : ", ") + found[i].format + " (" + found[i].place + ")";
  }
  refuse_file(path, "holds several data sets: " + places + (found.size() > kNamesShown ? ", ..." : ""),
              "name one of these, or give each a folder of its own");
}

}  // namespace

FoundData find_data(const std::string& as_typed) {
  const std::string path = as_typed.substr(0, std::max<size_t>(1, as_typed.find_last_not_of('/') + 1));
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    refuse_file(path, "no such file or folder",
                "set agent.data.path (--data) to data, or to `generated` for digits that the program draws itself");
  }
  std::vector<FoundData> found;
  for (const auto find : {find_idx, find_cifar, find_image_folders, find_npz, find_text}) {
    for (FoundData& one : find(path)) {
      const bool readme = find == find_text && !one.is_divided && !found.empty();
      if (!readme) found.push_back(std::move(one));
    }
  }
  if (found.size() > 1) refuse_several(path, found);
  if (!found.empty()) return found[0];
  refuse_file(path, "found " + describe_content(path),
              "expected IDX (train-images-idx3-ubyte, or .gz), CIFAR-10 (data_batch_1.bin, or its .tar.gz), PNG or "
              "JPEG in a folder for each class, a .npz, or a .txt; name such data with agent.data.path, or write "
              "`generated`");
}

}  // namespace starling
