#include "bootstrap/donor.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "gossip/limits.h"

namespace starling {

Donor::Donor(Membership& membership, Outbox& outbox, Compare compare)
    : membership_(membership), outbox_(outbox), compare_(std::move(compare)) {}

void Donor::set_settings(std::string settings) { settings_ = std::move(settings); }
const std::string& Donor::settings() const { return settings_; }
const DonorCounters& Donor::counters() const { return counters_; }

void Donor::set_model(std::shared_ptr<const ModelFile> model) {
  if (model_ && model && model_->snapshot() == model->snapshot()) return;
  previous_ = std::move(model_);
  model_ = std::move(model);
}

std::shared_ptr<const ModelFile> Donor::find_model(uint64_t snapshot) const {
  for (const auto& model : {model_, previous_}) {
    if (model && model->snapshot() == snapshot) return model;
  }
  return nullptr;
}

void Donor::handle(const FrameHeader& header, const BootstrapMessage& message) {
  if (const auto* join = std::get_if<Join>(&message)) {
    answer_join(header, *join);
  } else if (const auto* request = std::get_if<ModelRequest>(&message)) {
    offer_model(header, *request);
  } else if (const auto* block = std::get_if<ModelBlockRequest>(&message)) {
    send_block(header, *block);
  }
}

void Donor::answer_join(const FrameHeader& header, const Join& join) {
  if (join.record.id != header.sender) return;   // nobody joins for another
  if (settings_.empty()) {
    settings_ = join.settings;
  } else if (!join.settings.empty() && join.settings != settings_) {
    ++counters_.joins_refused;
    outbox_.send(header.reply_to,
                 JoinRefused{compare_(settings_, join.settings).substr(0, kReasonBytesMax), settings_});
    return;
  }
  ++counters_.joins;
  // A registry without settings lets nobody in yet: a member that has none would only be asked for what it
  // lacks.
  if (!settings_.empty()) membership_.add(join.record);
  outbox_.send(header.reply_to, JoinReply{settings_, membership_.sample_records(kSyncRecordsMax)});
}

void Donor::offer_model(const FrameHeader& header, const ModelRequest& request) {
  ModelOffer offer;
  if (model_) {
    offer.snapshot = model_->snapshot();
    offer.round = model_->round();
    offer.steps = model_->steps();
    offer.total_bytes = model_->total_bytes();
    offer.block_bytes = kTransferBlockBytes;
    offer.root = model_->root();
    offer.first_hash = request.first_hash;
    const auto& hashes = model_->hashes();
    const size_t first = std::min<size_t>(request.first_hash, hashes.size());
    const size_t last = std::min(first + kTransferHashesPerFrame, hashes.size());
    offer.hashes.assign(hashes.begin() + static_cast<ptrdiff_t>(first),
                        hashes.begin() + static_cast<ptrdiff_t>(last));
  }
  outbox_.send(header.reply_to, offer);
}

void Donor::send_block(const FrameHeader& header, const ModelBlockRequest& request) {
  const auto model = find_model(request.snapshot);
  if (!model || request.index >= model->hashes().size()) {
    outbox_.send(header.reply_to, ModelGone{request.snapshot});
    return;
  }
  const SharedBytes block = model->block(request.index);
  ++counters_.blocks_sent;
  counters_.bytes_sent += block.size;
  outbox_.send(header.reply_to, ModelBlock{request.snapshot, request.index}, block);
}

}  // namespace starling
