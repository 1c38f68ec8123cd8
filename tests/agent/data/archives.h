// Archives as tar, NumPy and Python write them.
#pragma once

#include <cstring>

#include "tests/agent/data/data_folder.h"

namespace starling {

struct NamedBytes {
  std::string name;
  ByteVector bytes;
};

inline ByteVector tar_of(const std::vector<NamedBytes>& members) {
  ByteVector tar;
  for (const auto& [name, bytes] : members) {
    char header[512] = {};
    std::snprintf(header, 100, "%s", name.c_str());
    std::snprintf(header + 100, 8, "0000644");
    std::snprintf(header + 124, 12, "%011zo", bytes.size());
    header[156] = '0';
    std::memcpy(header + 257,
                "ustar\0"
                "00",
                8);
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    std::snprintf(header + 148, 8, "%06o", sum);
    tar.insert(tar.end(), header, header + 512);
    tar.insert(tar.end(), bytes.begin(), bytes.end());
    tar.resize((tar.size() + 511) / 512 * 512);
  }
  tar.resize(tar.size() + 1024);
  return tar;
}

inline void put(ByteVector& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(value >> 8 * i));
}

// Written as numpy.savez does, deflated as numpy.savez_compressed; wide: with the fields of archives beyond 4 GiB.
struct ZipForm { bool deflated = false, wide = false; };

inline ByteVector zip_of(const std::vector<NamedBytes>& members, const ZipForm& form = {}) {
  constexpr uint32_t kElsewhere = 0xffffffff;
  ByteVector zip, directory;
  for (const auto& [name, bytes] : members) {
    const ByteVector body = form.deflated ? packed(bytes, -MAX_WBITS) : bytes;
    const uint64_t at = zip.size();
    ByteVector sizes;  // from the flags to the length of the name
    put(sizes, form.deflated ? 8 : 0, 4);
    sizes.insert(sizes.begin(), {0, 0});
    put(sizes, 0, 2);
    put(sizes, crc32(0, bytes.data(), static_cast<uInt>(bytes.size())), 4);
    put(sizes, form.wide ? kElsewhere : body.size(), 4);
    put(sizes, form.wide ? kElsewhere : bytes.size(), 4);
    put(sizes, name.size(), 2);
    put(zip, 0x04034b50, 4);
    put(zip, 20, 2);
    zip = joined(zip, sizes);
    put(zip, 0, 2);
    zip = joined(joined(zip, bytes_of(name)), body);
    put(directory, 0x02014b50, 4);
    put(directory, 20 | 20 << 16, 4);
    directory = joined(directory, sizes);
    put(directory, form.wide ? 28 : 0, 2);
    directory.resize(directory.size() + 10);
    put(directory, form.wide ? kElsewhere : at, 4);
    directory = joined(directory, bytes_of(name));
    if (!form.wide) continue;
    put(directory, 1 | 24 << 16, 4);
    for (const uint64_t value : {uint64_t{bytes.size()}, uint64_t{body.size()}, at}) put(directory, value, 8);
  }
  const uint64_t at = zip.size(), end = at + directory.size();
  zip = joined(zip, directory);
  if (form.wide) {
    put(zip, 0x06064b50, 4);
    put(zip, 44, 8);
    zip.resize(zip.size() + 12);
    for (const uint64_t value : {members.size(), members.size(), directory.size(), at}) put(zip, value, 8);
    put(zip, 0x07064b50, 8);
    put(zip, end, 8);
    put(zip, 1, 4);
  }
  put(zip, 0x06054b50, 8);
  for (int i = 0; i < 2; ++i) put(zip, members.size(), 2);
  put(zip, form.wide ? kElsewhere : directory.size(), 4);
  put(zip, form.wide ? kElsewhere : at, 4);
  put(zip, 0, 2);
  return zip;
}

// An array as numpy.save writes it; shape: "3, 4, 4" or "3,".
inline ByteVector npy_of(const std::string& type, const std::string& shape, const ByteVector& elements) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  ByteVector npy = bytes_of("\x93NUMPY\x01");
  npy.push_back(0);
  put(npy, header.size(), 2);
  return joined(joined(npy, bytes_of(header)), elements);
}

// A batch of CIFAR-10's Python version: what Python 2 wrote of a dictionary with an array of bytes.
inline ByteVector cifar_pickle_of(const ByteVector& labels, const ByteVector& pixels) {
  const auto word = [](const std::string& text) {
    return joined({'U', static_cast<uint8_t>(text.size())}, joined(bytes_of(text), {'q', 1}));
  };
  ByteVector pickle = {0x80, 2, '}', 'q', 1, '('};
  pickle = joined(joined(pickle, word("batch_label")), word("training batch 1 of 5"));
  pickle = joined(joined(pickle, word("labels")), {']', 'q', 5, '('});
  for (const uint8_t label : labels) pickle = joined(pickle, {'K', label});
  pickle = joined(joined(pickle, {'e'}), word("data"));
  pickle = joined(pickle, bytes_of("cnumpy.core.multiarray\n_reconstruct\nq\x07"
                                   "cnumpy\nndarray\nq\x08"));
  pickle =
      joined(pickle, {'K', 0, 0x85, 'q', 9, 'U', 1, 'b', 0x87, 'R', 'q', 10, '(', 'K', 1, 'M', 0x10, 0x27, 'M', 0, 12});
  pickle = joined(pickle, joined({0x86, 'q', 11}, bytes_of("cnumpy\ndtype\nq\x0c")));
  pickle =
      joined(pickle, {'U', 2, 'u', '1', 'K', 0, 'K', 1, 0x87, 'R', 'q', 13, '(', 'K', 3, 'U', 1, '|', 'N', 'N', 'N'});
  pickle = joined(pickle, {'J', 255, 255, 255, 255, 'J', 255, 255, 255, 255, 'K', 0, 't', 'b', 0x89, 'T'});
  put(pickle, pixels.size(), 4);
  pickle = joined(joined(pickle, pixels), {'t', 'b'});
  pickle = joined(joined(pickle, word("filenames")), {']', 'r', 1, 1, 0, 0, '('});
  for (size_t i = 0; i < labels.size(); ++i) pickle = joined(pickle, word("camera_s_000148.png"));
  return joined(pickle, {'e', 'u', '.'});
}

}  // namespace starling
