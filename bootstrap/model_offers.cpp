#include "bootstrap/model_offers.h"

#include <span>

#include <fmt/format.h>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr Duration kSearchInterval = std::chrono::milliseconds(500);
constexpr uint32_t kGoneMax = 8;  // file changes without a block in between; then the donor is left for a while

bool root_fits(const ModelOffer& offer) {
  Blake2b256 root;
  for (const auto& hash : offer.hashes) root.update(std::as_bytes(std::span(hash)));
  return root.finish() == offer.root;
}

}  // namespace

ModelOffers::ModelOffers(const ModelFetchOptions& options, uint64_t total_bytes_expected, ModelSources& sources,
                         const Clock& clock, Outbox& outbox)
    : options_(options),
      total_bytes_(total_bytes_expected),
      block_count_((total_bytes_expected + kTransferBlockBytes - 1) / kTransferBlockBytes),
      sources_(sources),
      clock_(clock),
      outbox_(outbox),
      next_search_(clock.now()) {}

void ModelOffers::search() {
  if (clock_.now() < next_search_) return;
  next_search_ = clock_.now() + kSearchInterval;
  const size_t in_use = sources_.in_use().size();
  if (in_use >= options_.donors_max) return;
  for (const PeerId& peer : sources_.choose(options_.donors_max - in_use)) ask(peer, sources_.use(peer));
}

void ModelOffers::ask(const PeerId& peer, ModelSource& source) {
  source.ready = false;
  source.offer = {};
  source.progress = clock_.now();
  outbox_.send(peer, ModelRequest{0, source.cookie, source.nonce});
}

void ModelOffers::show_cookie(const PeerId& from, const JoinCookie& asks) {
  ModelSource* source = sources_.find_answering(from, asks.nonce);
  if (!source || source->ready || source->cookie == asks.cookie) return;  // the same again: it opens nothing
  source->cookie = asks.cookie;
  replaced(from, *source);  // ever new cookies would hold a place among the donors for ever
}

ModelOffers::Page ModelOffers::add_page(const ModelOffer& page, ModelOffer& held) const {
  if (page.first_hash == 0 && held.hashes.empty()) {
    held = page;
  } else if (held.snapshot != page.snapshot || held.root != page.root) {
    return Page::kOfAnother;
  } else if (page.first_hash == held.hashes.size()) {
    held.hashes.insert(held.hashes.end(), page.hashes.begin(), page.hashes.end());
  } else {
    return Page::kKnown;
  }
  return held.hashes.size() < block_count_ && !page.hashes.empty() ? Page::kMore : Page::kLast;
}

bool ModelOffers::take(const PeerId& from, const ModelOffer& offer) {
  ModelSource* source = sources_.find_answering(from, offer.nonce);
  if (!source || source->ready) return false;
  if (offer.total_bytes == 0) {
    sources_.has_nothing(from, "has no model to give yet");
    return false;
  }
  if (offer.total_bytes != total_bytes_ || offer.block_bytes != kTransferBlockBytes) {
    sources_.refuse(from, fmt::format("offers a model of {} bytes in blocks of {}; ours has {} in blocks of {}",
                                      offer.total_bytes, offer.block_bytes, total_bytes_, kTransferBlockBytes));
    return false;
  }
  const Page page = add_page(offer, source->offer);
  if (page == Page::kKnown) return false;
  if (page == Page::kOfAnother) {
    replaced(from, *source);  // its file changed between two pages
    return false;
  }
  source->progress = clock_.now();
  const size_t hashes = source->offer.hashes.size();
  if (page == Page::kMore) {
    outbox_.send(from, ModelRequest{static_cast<uint32_t>(hashes), source->cookie, source->nonce});
    return false;
  }
  if (hashes != block_count_ || !root_fits(source->offer)) {
    sources_.refuse(from,
                    fmt::format("gave {} block hashes of {} that do not belong to its root", hashes, block_count_));
    return false;
  }
  source->ready = true;
  return true;
}

void ModelOffers::replaced(const PeerId& from, ModelSource& source) {
  if (++source.gone <= kGoneMax) return ask(from, source);
  sources_.has_nothing(from, "replaces its model file faster than it gives a block of it");
}

}  // namespace starling
