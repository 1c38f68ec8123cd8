#include "agent/data/file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace starling {

void refuse_file(const std::string& path, const std::string& what, const std::string& remedy) {
  throw std::runtime_error(path + ": " + what + "; " + remedy);
}

std::ifstream open_data_file(const std::string& path, uint64_t* size_bytes) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (std::filesystem::exists(path + ".gz", error)) {
      refuse_file(path, "no such file, but " + path + ".gz is there", "unpack it with gunzip");
    }
    refuse_file(path, "no such file",
                "set agent.data.path to a folder with IDX files (train-images-idx3-ubyte and so on), with "
                "CIFAR-10's binary files (data_batch_1.bin and so on) or with text (train.txt), or to `generated` for "
                "digits that the program draws itself");
  }
  if (!std::filesystem::is_regular_file(path, error))
    refuse_file(path, "not a regular file", "put the data file there");
  *size_bytes = std::filesystem::file_size(path, error);
  if (error) refuse_file(path, error.message(), "check the file's permissions");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    refuse_file(path, std::string("cannot be opened: ") + std::strerror(errno), "check the file's permissions");
  return file;
}

}  // namespace starling
