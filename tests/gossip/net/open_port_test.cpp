// A port that lets in a stranger is found at the start. The test plants one where the gate answers ZeroMQ (ZAP): the
// linker's --wrap leads those calls here.
#include <gtest/gtest.h>
#include <zmq.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gossip/net/zmq_transport.h"
#include "tests/gossip/net/numbered_identity.h"

namespace {

std::atomic<int> let_in = 0;  // which of the strangers that call, the first one being 1; 0: none
std::atomic<int> strangers = 0;

}  // namespace

extern "C" {

int __real_zmq_send(void* socket, const void* data, size_t size, int flags);

int __wrap_zmq_send(void* socket, const void* data, size_t size, int flags) {
  if (std::string_view(static_cast<const char*>(data), size) == "400" && ++strangers == let_in) data = "200";
  return __real_zmq_send(socket, data, size, flags);
}
}

namespace starling {
namespace {

std::string refusal(int stranger) {
  let_in = stranger;
  strangers = 0;
  ZmqContext context;
  try {
    ZmqTransport transport({"127.0.0.1", 0}, context, std::make_shared<MemberKeys>(identity_of(2), identity_of(1)));
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OpenPort, KeepsAnAgentFromStarting) {
  EXPECT_EQ(refusal(0), "");
  EXPECT_GE(strangers, 2) << "one at each port";
  for (const int port : {1, 2}) {
    const std::string why = refusal(port);
    EXPECT_NE(why.find("let in a stranger without a ticket"), std::string::npos) << why;
    EXPECT_GE(strangers, port);
  }
}

}  // namespace
}  // namespace starling
