#include "agent/data/cifar_pickle.h"

#include <string>
#include <string_view>

#include "agent/data/file.h"

namespace starling {
namespace {

constexpr uint64_t kPixels = 3 * 32 * 32;
constexpr size_t kWordMax = 4096;  // of a name; a longer text is the pixels

class PickleWalk {
 public:
  PickleWalk(const ByteRange& where, uint64_t records_max) : where_(where), records_max_(records_max), stream_(where) {
    stream_.seek(where.begin);
  }

  Records walk(std::vector<uint8_t>& labels) {
    for (uint8_t op = byte(); op != '.'; op = byte()) step(op, labels);
    if (pixels_.count == 0 || pixels_.count != labels.size()) {
      refuse(std::to_string(labels.size()) + " labels and " + std::to_string(pixels_.count) + " images");
    }
    return pixels_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_file(where_.name(), "no batch of CIFAR-10 (" + what + ")",
                "fetch CIFAR-10's binary version, cifar-10-binary.tar.gz");
  }

  uint8_t byte() { return static_cast<uint8_t>(number(1)); }

  uint64_t number(size_t bytes) {
    if (stream_.position() - where_.begin + bytes > where_.bytes) refuse("cut short");
    uint8_t read[4];
    stream_.read(read, bytes);
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | read[i];
    return value;
  }

  void line() {
    for (size_t i = 0; byte() != '\n'; ++i) {
      if (i == kWordMax) refuse("a name without an end");
    }
  }

  void text(uint64_t bytes) {
    const uint64_t at = stream_.position() - where_.begin;
    if (bytes > where_.bytes - at) refuse("cut short");
    if (bytes <= kWordMax && !(word_ == "data" && bytes == kPixels)) {
      std::string word(static_cast<size_t>(bytes), '\0');
      stream_.read(reinterpret_cast<uint8_t*>(word.data()), word.size());
      if (word == "labels" || word == "data" || word_ == "labels") word_ = word;
      return;
    }
    if (word_ != "data" || pixels_.count > 0) refuse("a text of " + std::to_string(bytes) + " bytes");
    if (bytes % kPixels != 0) refuse(std::to_string(bytes) + " bytes of pixels");
    pixels_ = {where_, at, kPixels, bytes / kPixels};
    stream_.seek(where_.begin + at + bytes);
  }

  void small_number(std::vector<uint8_t>& labels) {
    const uint8_t value = byte();
    if (word_ != "labels") return;
    if (labels.size() == records_max_) refuse("too many labels");
    labels.push_back(value);
  }

  void step(uint8_t op, std::vector<uint8_t>& labels) {
    const auto among = [op](std::string_view ops) { return ops.find(static_cast<char>(op)) != std::string_view::npos; };
    if (op == 'K') return small_number(labels);
    if (among("UC")) return text(number(1));
    if (among("TBX")) return text(number(4));
    if (among("qh\x80")) return void(number(1));  // memory of what was built; the version
    if (among("rjJ")) return void(number(4));
    if (op == 'M') return void(number(2));
    if (op == 'c') return line(), line();                   // a name of Python's, which stays a name
    if (among("}])(eausRtbN\x85\x86\x87\x88\x89")) return;  // they have no bytes behind them
    refuse("opcode " + std::to_string(op) + " at byte " + std::to_string(stream_.position() - 1));
  }

  const ByteRange where_;
  const uint64_t records_max_;
  ByteStream stream_;
  std::string word_;  // labels or data, or the first one behind the labels
  Records pixels_;
};

}  // namespace

Records open_cifar_pickle(const ByteRange& where, uint64_t records_max, std::vector<uint8_t>& labels) {
  return PickleWalk(where, records_max).walk(labels);
}

}  // namespace starling
