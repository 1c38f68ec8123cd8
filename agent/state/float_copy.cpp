#include "agent/state/float_copy.h"

#include <sys/mman.h>

#include <new>

#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {

// To make fresh pages of 4 KiB takes longer than to fill them.
FloatCopy::FloatCopy(size_t count) : count_(count) {
  constexpr size_t kHugePage = 2 << 20, kLarge = 32 << 20;
  const size_t alignment = count * sizeof(float) < kLarge ? 64 : kHugePage;
  const size_t bytes = (count * sizeof(float) / alignment + 1) * alignment;
  memory_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
  if (!memory_) throw std::bad_alloc();
  if (alignment == kHugePage) ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: it works without
}

void FloatCopy::touch(const std::function<bool()>& go_on) {
  constexpr size_t kPage = 4096 / sizeof(float), kAsk = 1024 * kPage;
  for (size_t i = 0; i < count_ && (i % kAsk != 0 || go_on()); i += kPage) {
    static_cast<volatile float*>(memory_.get())[i] = 0;
  }
}

void FloatCopy::fill(const std::vector<ConstView>& views) {
  parts_.clear();
  float* at = memory_.get();
  for (const ConstView& view : views) {
    copy_to_host(view, at);
    parts_.emplace_back(at, view.count);
    at += view.count;
  }
  STARLING_CHECK(at == memory_.get() + count_);
}

}  // namespace starling
