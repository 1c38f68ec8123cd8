#include "agent/state/tensor_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "agent/state/file_ops.h"
#include "agent/state/private_file.h"
#include "kernels/check.h"

namespace starling {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian and written as values lie");

void put_safetensors(const TensorFile& file, const PutBytes& put) {
  nlohmann::ordered_json header;
  for (const auto& [name, text] : file.metadata) header["__metadata__"][name] = text;
  uint64_t end = 0;
  for (const NamedTensor& tensor : file.tensors) {
    const uint64_t begin = end;
    end += tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  put(std::as_bytes(std::span(&size, 1)));
  put(std::as_bytes(std::span(text)));
  for (const NamedTensor& tensor : file.tensors) put(std::as_bytes(tensor.values));
}

PutTensorFile tensor_format(const std::string& path) {
  if (path.ends_with(".safetensors")) return put_safetensors;
  return path.ends_with(".pt") ? put_pt : nullptr;
}

namespace {

// What open() would give a new file.
mode_t usual_mode() {
  const mode_t mask = ::umask(022);
  ::umask(mask);
  return 0666 & ~mask;
}

const char* remedy_for(int status) {
  if (status == -ENOSPC || status == -EDQUOT || status == -EFBIG) return "make room, or name a file on another disk";
  if (status == -ENOENT || status == -ENOTDIR) return "make its folder first, or name another one";
  return "name a file in a folder that you may write to";
}

}  // namespace

void write_tensor_file(const std::string& path, const TensorFile& file) {
  const PutTensorFile put_file = tensor_format(path);
  STARLING_CHECK(put_file != nullptr);
  const std::unique_ptr<FileOps> files = make_file_ops();
  const std::string unfinished = path + ".tmp";
  files->remove(unfinished);  // left by a process that died while writing
  const auto failure = replace_file(*files, path, unfinished, [&](int fd) {
    int64_t status = ::fchmod(fd, usual_mode()) == 0 ? 0 : -errno;
    put_file(file, [&](std::span<const std::byte> piece) {
      while (!piece.empty() && status >= 0) {
        status = files->write(fd, piece.data(), piece.size());
        if (status > 0) piece = piece.subspan(static_cast<size_t>(status));
      }
    });
    return static_cast<int>(std::min<int64_t>(status, 0));
  });
  if (!failure) return;
  throw std::runtime_error(path + " cannot be written: " + failure->doing + " " + failure->path + ": " +
                           std::strerror(-failure->status) + "; " + remedy_for(failure->status));
}

}  // namespace starling
