// Floats that were copied out of a trainer, and the memory they lie in.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/view.h"

namespace starling {

class FloatCopy {
 public:
  // Room for so many. Throws std::bad_alloc: there is no memory for them.
  explicit FloatCopy(size_t count);
  size_t count() const { return count_; }
  // Has the kernel make the pages, so that fill() need not wait for them. `go_on` is asked now and then.
  void touch(const std::function<bool()>& go_on);
  // Waits until the copies are done. REQUIRES: the views have `count` in all.
  void fill(const std::vector<ConstView>& views);
  std::span<const float> part(size_t index) const { return parts_[index]; }  // of views[index]

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  const size_t count_;
  std::unique_ptr<float[], Free> memory_;  // goes back to the kernel with the object, where it is large
  std::vector<std::span<const float>> parts_;
};

}  // namespace starling
