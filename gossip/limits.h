// Every named maximum of the network side. Reaching one is counted, never silent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace starling {

inline constexpr uint32_t kProtocolVersion = 2;
// What a newcomer has to know besides; 1: to number its requests for the model, and to show the donor's cookie; 2: to
// sign its records. A newcomer of an older one is told so instead of being let in: it would wait for its model for
// ever, or no member would take its records. Open swarms let in newcomers from kOpenRevision on.
inline constexpr uint32_t kProtocolRevision = 2;
inline constexpr uint32_t kOpenRevision = 1;

// frames
inline constexpr size_t kControlFrameBytesMax = 64 * 1024;
inline constexpr size_t kPayloadBytesMax = 4 * 1024 * 1024;  // one block
inline constexpr size_t kBulkFrameBytesMax = kPayloadBytesMax + 64 * 1024;
inline constexpr size_t kPendingBytesPerPeerMax = 32 * 1024 * 1024;  // queued by the transport while a link comes up
inline constexpr size_t kPendingFramesPerPeerMax = 512;
inline constexpr size_t kCreditBytes = 8 * 1024 * 1024;  // blocks in flight towards one receiver

// links that others open: so many for each member, and for those that are none
inline constexpr size_t kLinksPerMemberMax = 4;
inline constexpr size_t kStrangerLinksMax = 128;
inline constexpr size_t kUnfinishedBytesMax = 24 * 1024 * 1024;  // of all links, before they are whole frames
inline constexpr uint32_t kUnreadableFramesMax = 1000;           // of one source address in a minute

// membership
inline constexpr size_t kMembersMax = 1024;
inline constexpr size_t kTombstonesMax = 4 * kMembersMax;
inline constexpr size_t kGossipUpdatesPerFrameMax = 20;
inline constexpr size_t kSyncRecordsMax = 64;
inline constexpr size_t kViewPagesMax = 1 + (kMembersMax + kTombstonesMax) / kSyncRecordsMax;  // of a reader's view
inline constexpr uint64_t kOnlySwarm = UINT64_MAX;  // to a reader: the only one that is served there; the id of none
inline constexpr size_t kNameBytesMax = 32;
inline constexpr size_t kHostBytesMax = 255;
inline constexpr size_t kProofBytes = 64;        // a signature
inline constexpr size_t kRecordBytesMax = 1024;  // as its owner signs it, unpacked; three times what it takes now
inline constexpr size_t kSealedBytesMax = kProofBytes + kRecordBytesMax / 8 * 9 + 16;  // packed, the worst case
inline constexpr size_t kSealedPerFrameMax = 24 * 1024;  // of all records of a frame; settings may stand beside them

// exchanges
inline constexpr size_t kBlocksMax = 1 << 17;  // a bitmap of 16 KiB
inline constexpr size_t kInDoubtMax = 4;
inline constexpr size_t kParkedDoubtsMax = 8;  // doubts that last; the oldest is broken beyond that
inline constexpr size_t kAcceptedMax = 4;      // foreign exchanges in progress
inline constexpr double kMassRatioMax = 8;     // a peer's mass counts at most 8x the median
inline constexpr double kRateRatioMax = 64;    // a peer's rate counts at most 64x the own one

// updates in a group (updates/update_group.h)
inline constexpr size_t kUpdateMembersMax = 32;
inline constexpr size_t kUpdateSlicesMax = 64;
inline constexpr size_t kCountedRowsMax = 64;        // also of members that left within a while
inline constexpr size_t kRecentEntries = 8;          // with their bytes, for members that missed them
inline constexpr size_t kUpdatePartBytes = 1 << 20;  // a larger payload travels in parts
inline constexpr size_t kUpdatePlanBytesMax = 128;
inline constexpr size_t kUpdatePartsMax = 1024;  // of one payload, or of one slice's state

// joining
inline constexpr size_t kSettingsBytesMax = 32 * 1024;
inline constexpr size_t kTransferBlockBytes = 1 << 20;
inline constexpr size_t kTransferHashesPerFrame = 2048;
inline constexpr size_t kReasonBytesMax = 4 * 1024;
inline constexpr size_t kRegistrySwarmsMax = 64;  // of one registry
inline constexpr double kJoinsPerSecond = 32;     // of one source address
inline constexpr double kJoinsAtOnce = 256;
inline constexpr size_t kJoinSourcesMax = 1024;  // with a count of joins each; the others share one

}  // namespace starling
