// What the holder of a certified swarm's key has signed: the file `admissions` beside swarm.key. Where it is there, the
// key is one of a certified swarm. `starling admit` and `starling revoke` write it, also while an agent runs with the
// folder; that agent reads it. All throw std::runtime_error with cause and remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gossip/peer.h"

namespace starling {

constexpr const char* kAdmissionsFile = "admissions";
constexpr size_t kAdmissionsBytesMax = 16 * 1024 * 1024;

struct SignedRow {
  uint64_t serial = 0;
  PeerId id;
  uint64_t not_after = 0;    // of an admission: seconds since 1970; 0: for ever
  std::string revocation{};  // kRevocationBytes; empty: an admission
};

bool holds_admissions(const std::string& folder);
void begin_admissions(const std::string& folder);                   // an empty file, where there is none
std::vector<SignedRow> read_admissions(const std::string& folder);  // in the order of signing

std::string revocations_in(const std::string& folder);  // as Revocations::take() reads them

// To add to it. Other processes that do so wait until this object is destroyed.
class AdmissionBook {
 public:
  explicit AdmissionBook(const std::string& folder);
  ~AdmissionBook();
  AdmissionBook(const AdmissionBook&) = delete;
  AdmissionBook& operator=(const AdmissionBook&) = delete;

  const std::vector<SignedRow>& rows() const { return rows_; }
  bool revoked(const PeerId& id) const;
  uint64_t next_serial() const { return rows_.empty() ? 1 : rows_.back().serial + 1; }
  void add(SignedRow row) { rows_.push_back(std::move(row)); }
  void store() const;  // durably

 private:
  const std::string folder_;
  int fd_ = -1;
  std::vector<SignedRow> rows_;
};

}  // namespace starling
