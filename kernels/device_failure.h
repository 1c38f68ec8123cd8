// A GPU that is missing, full, lost, or of no use to this program, with what was tried and what to do. Nothing that
// lies on it can be used any more; an agent that may compute on the CPU can continue there from the last checkpoint.
#pragma once

#include <stdexcept>

namespace starling {

class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace starling
