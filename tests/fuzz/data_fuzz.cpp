// A file of data from a stranger. The first byte chooses its name, and so the reader: a tar archive, a zip archive of
// arrays, a pickle, IDX, or images that are PNG or JPEG by their first bytes. What is taken has as many pixels as it
// says; all else is refused.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "agent/data/dataset.h"
#include "agent/data/survey.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {
namespace {

// What is loaded, and the files of it that hold the input.
struct Place {
  const char* data;
  std::vector<const char*> files;
  int64_t classes;
};

const Place kPlaces[] = {{"a.tar", {"a.tar"}, 10},
                         {"a.npz", {"a.npz"}, 256},
                         {"py", {"py/data_batch_1"}, 10},
                         {"idx", {"idx/train-images-idx3-ubyte"}, 256},
                         {"images", {"images/a/1.png", "images/b/1.png"}, 2}};

// A file in memory under all of these names.
class FileInMemory {
 public:
  FileInMemory() : descriptor_(memfd_create("data", MFD_CLOEXEC)) {
    std::string folder = (std::filesystem::temp_directory_path() / "starling_fuzz_XXXXXX").string();
    STARLING_CHECK(descriptor_ >= 0 && mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    for (const Place& place : kPlaces) {
      for (const char* name : place.files) {
        std::filesystem::create_directories((folder_ / name).parent_path());
        std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(descriptor_), folder_ / name);
      }
    }
    std::ofstream(folder_ / "idx/train-labels-idx1-ubyte") << std::string("\0\0\x08\1\0\0\0\2\1\0", 10);
  }
  ~FileInMemory() {
    std::filesystem::remove_all(folder_);
    close(descriptor_);
  }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;

  void write(std::span<const std::byte> bytes) const {
    STARLING_CHECK(ftruncate(descriptor_, 0) == 0);
    STARLING_CHECK(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  std::string path(const Place& place) const { return folder_ / place.data; }

 private:
  const int descriptor_;
  std::filesystem::path folder_;
};

}  // namespace

void fuzz_data(std::span<const std::byte> input) { (void)data_is_taken(input); }

bool data_is_taken(std::span<const std::byte> input) {
  static const FileInMemory file;
  if (input.empty()) return false;
  file.write(input.subspan(1));
  const Place& place = kPlaces[std::to_integer<size_t>(input[0]) % std::size(kPlaces)];
  const std::string path = file.path(place);
  try {
    const DataSurvey survey = survey_data(path, nullptr, true);
    const Dataset data = load_data({.path = path}, {survey.shape, place.classes}, 1).train;
    STARLING_CHECK(data.count() > 0 && data.pixels.size() == data.count() * data.sample_elements());
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace starling
