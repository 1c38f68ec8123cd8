// What donors offer: asks members for the hashes of their model's blocks, page by page, until the pages of one have the
// root that it named.
#pragma once

#include <cstdint>

#include "bootstrap/model_sources.h"
#include "gossip/clock.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"

namespace starling {

class ModelOffers {
 public:
  // All references must outlive the object.
  ModelOffers(const ModelFetchOptions& options, uint64_t total_bytes_expected, ModelSources& sources,
              const Clock& clock, Outbox& outbox);

  void search();  // takes more members into use when it is time
  void search_soon() { next_search_ = clock_.now(); }
  TimePoint next_search() const { return next_search_; }

  // The donor gives nothing without it: asks it again.
  void show_cookie(const PeerId& from, const JoinCookie& asks);
  // True: `from` can be asked for blocks now.
  bool take(const PeerId& from, const ModelOffer& offer);
  // A donor replaced its file, and has to offer anew. REQUIRES: it owes no block.
  void replaced(const PeerId& from, ModelSource& source);

 private:
  enum class Page { kKnown, kMore, kOfAnother, kLast };
  void ask(const PeerId& peer, ModelSource& source);
  Page add_page(const ModelOffer& page, ModelOffer& held) const;

  const ModelFetchOptions& options_;
  const uint64_t total_bytes_, block_count_;
  ModelSources& sources_;
  const Clock& clock_;
  Outbox& outbox_;
  TimePoint next_search_;
};

}  // namespace starling
