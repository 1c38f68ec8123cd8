#include "agent/process/device_fallback.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/device_failure.h"

namespace starling {
namespace {

// The devices that `run` was called with; it fails where `failing` says so.
struct Runs {
  std::vector<std::string> devices;

  template <class Error>
  int operator()(const std::string& device, int failing) {
    Config config;
    config.agent.device = device;
    return run_on_gpu_or_cpu(config, [&](const Config& now) {
      devices.push_back(now.agent.device);
      if (static_cast<int>(devices.size()) <= failing) throw Error("the GPU is lost");
      return 7;
    });
  }
};

TEST(DeviceFallback, AutoGoesOnOnTheCpu) {
  Runs runs;
  EXPECT_EQ(runs.operator()<DeviceFailure>("auto", 1), 7);
  EXPECT_EQ(runs.devices, (std::vector<std::string>{"auto", "cpu"}));
}

TEST(DeviceFallback, OnceOnly) {
  Runs runs;
  EXPECT_THROW(runs.operator()<DeviceFailure>("auto", 2), DeviceFailure);
  EXPECT_EQ(runs.devices, (std::vector<std::string>{"auto", "cpu"}));
}

TEST(DeviceFallback, WhoNamedADeviceGetsTheError) {
  for (const char* device : {"cuda", "cpu"}) {
    Runs runs;
    EXPECT_THROW(runs.operator()<DeviceFailure>(device, 1), DeviceFailure);
    EXPECT_EQ(runs.devices, std::vector<std::string>{device});
  }
}

TEST(DeviceFallback, OtherErrorsAreNoReasonForAnotherDevice) {
  Runs runs;
  EXPECT_THROW(runs.operator()<std::runtime_error>("auto", 1), std::runtime_error);
  EXPECT_EQ(runs.devices, std::vector<std::string>{"auto"});
}

TEST(DeviceFallback, NothingFails) {
  Runs runs;
  EXPECT_EQ(runs.operator()<DeviceFailure>("auto", 0), 7);
  EXPECT_EQ(runs.devices, std::vector<std::string>{"auto"});
}

}  // namespace
}  // namespace starling
