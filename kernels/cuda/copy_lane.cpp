#include "kernels/cuda/copy_lane.h"

#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/device.h"
#include "kernels/device_failure.h"

namespace starling::cuda {
namespace {

class StreamLane final : public CopyLane {
 public:
  StreamLane(void* computes, size_t tickets) : device_(current_device()), computes_(computes), landed_(tickets) {}

  ~StreamLane() override {
    try {
      copies_.wait();
    } catch (const DeviceFailure&) {  // of a GPU that is lost: it copies nothing any more
    }
  }

  void begin(size_t ticket, std::span<const CopyPiece> pieces) override {
    STARLING_CHECK(ticket < landed_.size());
    const CurrentDevice current(device_);
    computed_.record(computes_);
    computed_.hold(copies_.handle());
    for (const CopyPiece& piece : pieces) {
      copy_async(piece.host, piece.from.data, piece.from.count * sizeof(float), copies_.handle());
    }
    landed_[ticket].record(copies_.handle());
  }

  bool landed(size_t ticket) override { return landed_.at(ticket).reached(); }
  void wait(size_t ticket) override { landed_.at(ticket).wait(); }

 private:
  const int device_;
  void* const computes_;
  Stream copies_;
  Event computed_;             // of the copy that begins; a stream that is held by it keeps the record of its time
  std::vector<Event> landed_;  // by ticket
};

}  // namespace

std::unique_ptr<CopyLane> make_copy_lane(void* computes, size_t tickets) {
  return std::make_unique<StreamLane>(computes, tickets);
}

}  // namespace starling::cuda
