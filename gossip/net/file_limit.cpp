#include "gossip/net/file_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace starling {
namespace {

constexpr rlim_t kFilesWanted = 65536;
constexpr rlim_t kFilesPerLink = 3;  // the socket's mailbox, its connection, one accepted connection
constexpr rlim_t kFilesReserved = 128;
constexpr size_t kLinksMin = 8;

}  // namespace

void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kFilesWanted) return;
  files.rlim_cur = std::min(kFilesWanted, files.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &files);  // if refused, there are fewer links
}

size_t links_within_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<size_t>::max();
  }
  const rlim_t for_links = files.rlim_cur > kFilesReserved ? files.rlim_cur - kFilesReserved : 0;
  return std::max<size_t>(for_links / kFilesPerLink, kLinksMin);
}

}  // namespace starling
