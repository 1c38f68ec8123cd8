#include "bootstrap/donor.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr uint64_t kStepsBehindMin = 100;                      // and a tenth of all: much older
constexpr Duration kNewerPatience = std::chrono::seconds(30);  // then an old model is better than none
constexpr Duration kAnswerWithin = std::chrono::seconds(1);    // before the newcomer takes this donor for silent
constexpr size_t kWaitingMax = 16;                             // newcomers; the others ask again
constexpr size_t kWaitingOfHostMax = 8;                        // one host with many ports keeps nobody else out
constexpr size_t kGivenMax = 256;                              // blocks under way; others are asked for again
constexpr size_t kGivenOfHostMax = 64;

}  // namespace

bool Donor::too_old() const {
  return damaged_ || (model_ && model_->steps() + std::max(kStepsBehindMin, steps_ / 10) < steps_);
}

bool Donor::wants_newer(TimePoint now) {
  std::erase_if(waiting_, [&](Waiting& one) {
    if (!one.since) one.since = now;
    const bool over = now - *one.since >= kAnswerWithin;
    if (over) send_offer(one.newcomer, one.nonce, 0, false);
    return over;
  });
  if (!too_old()) {
    waits_since_.reset();
    gives_any_ = false;
  } else if (asked_ && !waits_since_) {
    waits_since_ = now;
  }
  asked_ = false;
  if (!waits_since_) return false;
  gives_any_ = now - *waits_since_ >= kNewerPatience;
  return true;
}

void Donor::set_model(std::shared_ptr<const ModelFile> model) {
  if (model_ && model && model_->snapshot() == model->snapshot()) return;
  previous_ = std::move(model_);
  model_ = std::move(model);
  damaged_ = false;
  for (const Waiting& one : waiting_) send_offer(one.newcomer, one.nonce, 0, true);
  waiting_.clear();
}

std::shared_ptr<const ModelFile> Donor::find_model(uint64_t snapshot) const {
  for (const auto& model : {damaged_ ? nullptr : model_, previous_}) {
    if (model && model->snapshot() == snapshot) return model;
  }
  return nullptr;
}

void Donor::handle(const FrameHeader& header, const BootstrapMessage& message, const std::string& source) {
  if (const auto* request = std::get_if<ModelRequest>(&message)) {
    offer_model(header, *request, source);
  } else if (const auto* block = std::get_if<ModelBlockRequest>(&message)) {
    send_block(header, *block, source);
  }
}

// A newcomer that was told to come back would find the model that was saved meanwhile too old again, where steps are
// quick. So it waits for that one. Later pages are of a model that was offered.
void Donor::offer_model(const FrameHeader& header, const ModelRequest& request, const std::string& source) {
  const bool old = too_old() && request.first_hash == 0;
  asked_ = asked_ || old;
  if (!old || gives_any_) return send_offer({header.reply_to, header.sender}, request.nonce, request.first_hash, true);
  const auto same = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& one) { return one.newcomer.endpoint == header.reply_to; });
  if (same != waiting_.end()) {
    same->nonce = request.nonce;  // it may have started again
    return;
  }
  const auto of_host =
      std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.source == source; });
  if (waiting_.size() >= kWaitingMax || of_host >= std::ptrdiff_t{kWaitingOfHostMax}) {
    return send_offer({header.reply_to, header.sender}, request.nonce, 0, false);
  }
  waiting_.push_back({{header.reply_to, header.sender}, source, request.nonce, std::nullopt});
}

void Donor::send_offer(const PeerAddress& to, uint64_t nonce, uint32_t first_hash, bool given) {
  ModelOffer offer{.nonce = nonce};
  if (model_ && given && !damaged_) {
    offer.snapshot = model_->snapshot();
    offer.round = model_->round();
    offer.steps = model_->steps();
    offer.total_bytes = model_->total_bytes();
    offer.block_bytes = kTransferBlockBytes;
    offer.root = model_->root();
    offer.first_hash = first_hash;
    const auto& hashes = model_->hashes();
    const size_t first = std::min<size_t>(first_hash, hashes.size());
    const size_t last = std::min(first + kTransferHashesPerFrame, hashes.size());
    offer.hashes.assign(hashes.begin() + static_cast<ptrdiff_t>(first), hashes.begin() + static_cast<ptrdiff_t>(last));
  }
  outbox_.send(to, offer);
}

// Each address has queues of its own, and one host may name any number of them.
bool Donor::may_give(const std::string& source) {
  std::erase_if(given_, [](const Given& one) { return one.owner.expired(); });
  const auto of_host =
      std::count_if(given_.begin(), given_.end(), [&](const Given& one) { return one.source == source; });
  return given_.size() < kGivenMax && of_host < std::ptrdiff_t{kGivenOfHostMax};
}

void Donor::send_block(const FrameHeader& header, const ModelBlockRequest& request, const std::string& source) {
  const auto model = find_model(request.snapshot);
  if (!model || request.index >= model->hashes().size()) {
    outbox_.send({header.reply_to, header.sender}, ModelGone{request.snapshot, request.nonce});
    return;
  }
  if (!may_give(source)) return;
  const SharedBytes block = model->block(request.index);
  if (block.empty()) {
    if (model == model_) damaged_ = true;
    if (model == previous_) previous_.reset();
    outbox_.send({header.reply_to, header.sender}, ModelGone{request.snapshot, request.nonce});
    return;
  }
  ++counters_.blocks_sent;
  counters_.bytes_sent += block.size;
  const auto owner = std::make_shared<const std::shared_ptr<const void>>(block.owner);  // a model in memory outlives it
  given_.push_back({source, owner});
  outbox_.send({header.reply_to, header.sender}, ModelBlock{request.snapshot, request.index, request.nonce},
               {owner, block.data, block.size, block.checksum});
}

}  // namespace starling
