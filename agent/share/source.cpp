#include "agent/share/source.h"

#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

class ParamsSource final : public Source {
 public:
  bool follows_rounds() const override { return false; }
  void round_began(const std::vector<ConstView>&) override {}
  ConstView shared(size_t, size_t, ConstView x) override { return x; }
};

class GradientsSource final : public Source {
 public:
  bool follows_rounds() const override { return true; }
  void round_began(const std::vector<ConstView>& sections) override {
    base_.resize(sections.size());
    for (size_t i = 0; i < sections.size(); ++i) {
      base_[i].resize(sections[i].count);
      copy_to_host(sections[i], base_[i].data());
    }
  }
  ConstView shared(size_t section, size_t offset, ConstView x) override {
    STARLING_CHECK(x.space == MemorySpace::kHost);
    change_.assign(x.count, 0.0f);
    if (!base_.empty()) {
      const float* base = base_[section].data() + offset;
      for (size_t i = 0; i < x.count; ++i) change_[i] = x.data[i] - base[i];
    }
    return {change_.data(), change_.size(), MemorySpace::kHost};
  }

 private:
  std::vector<std::vector<float>> base_;  // by section: its values when the round began
  std::vector<float> change_;
};

}  // namespace

std::unique_ptr<Source> make_source(SourceKind kind) {
  switch (kind) {
    case SourceKind::kParams: return std::make_unique<ParamsSource>();
    case SourceKind::kGradients: return std::make_unique<GradientsSource>();
    case SourceKind::kUpdates: break;  // UpdateSharing
  }
  return nullptr;
}

}  // namespace starling
