#include "bootstrap/memory_model.h"

#include <algorithm>
#include <span>
#include <utility>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {

MemoryModel::MemoryModel(SharedBytes params, uint64_t snapshot, uint64_t round, uint64_t steps)
    : params_(std::move(params)), snapshot_(snapshot), round_(round), steps_(steps) {
  Blake2b256 root;
  for (size_t at = 0; at < params_.size; at += kTransferBlockBytes) {
    hashes_.push_back(xxh3_128(block(static_cast<uint32_t>(hashes_.size())).span()));
    root.update(std::as_bytes(std::span(hashes_.back())));
  }
  root_ = root.finish();
}

SharedBytes MemoryModel::block(uint32_t index) const {
  const size_t at = index * kTransferBlockBytes;
  return {params_.owner, params_.data + at, std::min(kTransferBlockBytes, params_.size - at)};
}

}  // namespace starling
