# The protocol, version 2. This file is its specification; wire.h converts, wire_check.h holds the ranges.
#
# A frame is one or two ZeroMQ message parts, sent by a DEALER to the ROUTER of the receiver:
#
#   part 1, the header: a prefix of 16 bytes, then one Cap'n Proto message (flat array, one segment, not packed)
#             0  u32  magic "STRL"
#             4  u16  protocol version: 2. Another one is refused as such, before anything else is read.
#             6  u16  flags: 0. Others are refused.
#             8  u64  XXH3-64 of all bytes from 16 on: one flipped bit anywhere in the header is noticed.
#            16       the message; its root is `Frame`
#   part 2, the payload: raw bytes (one encoded block, or one block of a model file). Only with messages that say so.
#
# Integers of the prefix are little-endian. A header has at most 64 KiB, a payload at most 4 MiB.
# There are two ports. Control carries everything but payloads; bulk (the next port) carries `modelBlock`,
# `blockPayload`, `roundBlock`, `contribution`, `logEntry` and `sliceState` only. A message on the wrong port is
# refused, and so is a payload where none belongs or none where one does. Nothing answers at transport level: replies
# are frames sent to `replyHost:replyPort`.
#
# Frames may be lost, doubled or reordered between the two ports. Every message is therefore idempotent, asked for
# again, or disposable. A refused frame is counted and otherwise ignored; it never ends a connection.
#
# Checksums only find damage. They prove nothing about who sent a frame.
#
# Evolution: fields and union members are only ever appended; types and defaults never change; fields that a reader
# does not know are ignored, union members that it does not know are refused as such.

@0xb5d1c8a4e7f03926;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("starling::wire");

struct Frame {
  # What every frame says before its message.
  swarm @0 :UInt64;            # first 8 bytes of the settings hash; 0 from a newcomer without settings. In a Join
                               # the swarm that the newcomer names, or 0
  sender @1 :Id;               # refused if zero
  generation @2 :UInt64;       # of the sender's process; grows with every start
  replyHost @3 :Text;          # where the sender's control port can be reached: a name, IPv4 or IPv6 without brackets,
  replyPort @4 :UInt16;        # at most 255 bytes; refused if it has other characters, or the port is 0
  payloadBytes @5 :UInt32;     # size of part 2; 0 when there is none. A difference is refused.
  payloadChecksum @6 :UInt64;  # XXH3-64 of part 2; 0 when there is none. A difference is refused.

  message :union {
    none @7 :Void;             # refused

    # membership: any member to any member
    ping @8 :Ping;
    pingAck @9 :PingAck;
    pingRequest @10 :PingRequest;
    pingNack @11 :PingNack;
    gossip @12 :Gossip;
    sync @13 :Sync;

    # joining
    join @14 :Join;
    joinReply @15 :JoinReply;
    joinRefused @16 :JoinRefused;
    modelRequest @17 :ModelRequest;
    modelOffer @18 :ModelOffer;
    modelBlockRequest @19 :ModelBlockRequest;
    modelBlock @20 :ModelBlock;                # bulk port, with a payload
    modelGone @21 :ModelGone;

    # the pairwise exchange
    propose @22 :Propose;
    accept @23 :Accept;
    busy @24 :Busy;
    blockPayload @25 :BlockPayload;            # bulk port, with a payload
    credit @26 :Credit;
    have @27 :Have;
    commit @28 :Commit;
    abort @29 :Abort;
    commitAck @30 :CommitAck;
    query @31 :Query;

    # exchanges in rounds
    roundBlock @32 :RoundBlock;                # bulk port, with a payload
    roundCredit @33 :RoundCredit;

    # the log of updates
    contribution @34 :Contribution;            # bulk port, with a payload
    logEntry @35 :LogEntry;                    # bulk port, with a payload
    logPull @36 :LogPull;
    sliceState @37 :SliceState;                # bulk port, with a payload
    sketchTable @40 :SketchTable;              # bulk port, with a payload
    sketchRequest @41 :SketchRequest;          # bulk port, with a payload
    updateBundle @42 :UpdateBundle;            # bulk port, with a payload

    # joining
    joinCookie @38 :JoinCookie;

    # the pairwise exchange by turns
    missing @39 :Missing;

    # membership of a certified swarm
    revoked @43 :Revoked;
    timedPingAck @44 :TimedPingAck;
  }
}

# ---- common parts ----

struct Id {
  # An Ed25519 public key, bytes 0-7 in `a` and so on, each little-endian.
  a @0 :UInt64;
  b @1 :UInt64;
  c @2 :UInt64;
  d @3 :UInt64;
}

struct PeerRecord {
  # What a member says of itself. Only its owner makes new versions; everybody passes it on as it is.
  id @0 :Id;                # refused if zero
  generation @1 :UInt64;    # with `incarnation` the record's version; the greater one wins
  incarnation @2 :UInt32;   # one more per refutation or change
  host @3 :Text;            # as replyHost
  port @4 :UInt16;          # as replyPort
  role @5 :UInt8;           # 0 agent, 1 bootstrap; others are refused
  phase @6 :UInt8;          # 0 joining, 1 training, 2 settling, 3 finished, 4 sick; others are refused
  round @7 :UInt64;
  steps @8 :UInt64;
  samples @9 :UInt64;
  mass @10 :Float64;        # weight of its model in the swarm's mean; refused outside [1e-18, 1e18]
  stepsPerS @11 :Float32;   # finite, >= 0
  loss @12 :Float32;        # finite; a loss that is no number is sent as the largest float
  accuracy @13 :Float32;    # finite, at most 1; negative: not measured
  distance @14 :Float32;    # finite; rms distance to the last partner's params over rms params; negative: not measured
  name @15 :Text;           # for people: UTF-8 without control characters, at most 32 bytes; never an identity
  projection @16 :List(Float32);  # of its params onto 16 fixed random directions; finite. Empty: not measured
  version @17 :UInt32;      # of its program: major * 2^16 + minor * 2^8 + patch. 0: of an older one, or passed on
                            # by one, which drops this field and the next two
  done @18 :UInt32;         # exchanges of this process that were completed, in part too; the largest number for more
  failed @19 :UInt32;       # exchanges of this process of which nothing came
  stopAfter @20 :UInt64;    # the step at which the run ends, where a member has raised it; 0: as the settings say
  testLoss @21 :Float32 = -1;     # finite; mean loss of the samples that `accuracy` is of; negative: not measured
  heldOut @22 :Bool;        # these samples are held out of its own training data; else they are test data
  classesHash @23 :UInt64;  # of the names of its classes in order: XXH3-64 of them, each with a zero byte behind it.
                            # 0: its data name none
  pause @24 :UInt8;         # 0: none. 1: its loop takes no steps, and no member waits for it. 2: as 1, and it holds the
                            # model that the run ended with. Others count as 1
  labelsHash @25 :UInt64;   # of the shares of its labels: bit i is the sign of the sum of the shares, each times the
                            # sum of the bytes of XXH3-64 of (i, label), two u64 in little-endian, less 1020. Few bits
                            # differ where the shares are alike; about half without a label in common. 0: not known,
                            # or too few samples to tell
  farewell @26 :Bool;       # of a signed record: its owner has left, and makes no newer one in this generation
  unsaved @27 :Bool;        # its last checkpoint could not be written
}

# In a swarm with tickets records travel signed, as Data, and not as PeerRecord. A signed record is the Ed25519
# signature (64 bytes) of its `id`, then a PeerRecord as its owner encoded it: a packed Cap'n Proto message of at most
# 1024 bytes unpacked. What is signed: "starling record 1", the swarm's key, and those packed bytes. Members pass it on
# byte for byte, with fields that they do not know. Refused: above 1232 bytes, or no PeerRecord.

struct Suspicion {
  subject @0 :Id;           # refused if zero
  generation @1 :UInt64;    # the version suspected
  incarnation @2 :UInt32;
  accuser @3 :Id;           # refused if zero
}

struct Updates {
  # News that rides on membership messages: at most 20 entries in all.
  alive @0 :List(PeerRecord);
  suspect @1 :List(Suspicion);
  left @2 :List(PeerRecord);  # the last version each of them announced
  signed @3 :List(Data);      # of both kinds, told apart by `farewell`
}

# ---- membership ----

struct Ping {
  # Are you there? Sent once per probe interval to one member, and by a helper on behalf of another.
  sequence @0 :UInt64;
  target @1 :Id;            # who is meant: another agent at this address does not answer. Zero: whoever listens here.
  updates @2 :Updates;
}

struct PingAck {
  # The answer to a ping, or a helper's message that the target answered it.
  sequence @0 :UInt64;      # of the ping, or of the pingRequest
  updates @1 :Updates;
  proof @2 :Data;           # where a process of the same id asked: that id's signature of the sequence and of this
                            # frame's generation, replyHost and replyPort (bootstrap/twin_watch.h). 64 bytes, or none
}

struct TimedPingAck {
  # A pingAck in a certified swarm, where memberships end by the median of the members' clocks.
  ack @0 :PingAck;
  unixS @1 :UInt64;         # the sender's wall clock, in seconds since 1970; 0: it does not tell
}

struct PingRequest {
  # Probe the target for me: sent to a few members when a direct ping had no answer in time.
  sequence @0 :UInt64;
  target @1 :Id;            # refused if zero
  updates @2 :Updates;
}

struct PingNack {
  # From a helper: alive itself, no answer from the target so far.
  sequence @0 :UInt64;
}

struct Gossip {
  # News with nothing else to ride on.
  updates @0 :Updates;
}

struct DigestEntry {
  # What the sender believes of one member: its id (as in Id), version and state.
  idA @0 :UInt64;
  idB @1 :UInt64;
  idC @2 :UInt64;
  idD @3 :UInt64;           # refused if all four are zero
  generation @4 :UInt64;
  incarnation @5 :UInt32;
  state @6 :UInt8;          # 0 alive, 1 suspect, 2 dead, 3 left; others are refused
}

struct Sync {
  # Full comparison of two views, now and then and while healing a split.
  digest @0 :List(DigestEntry);   # at most 1024
  records @1 :List(PeerRecord);   # what the other side lacks; at most 64
  replyWanted @2 :Bool;           # send me yours
  nonce @3 :UInt64;               # a page of a whole view, for a reader: of its join, never 0. 0: between members
  page @4 :UInt16;                # which page; below `pages`. 0 between members, as is the next
  pages @5 :UInt16;               # at most 81
  revoked @6 :UInt64;             # in a certified swarm: XXH3-64 of the ids that the sender knows to be revoked, in
                                  # order, 32 bytes each. 0: none, or from older senders
  signed @7 :List(Data);          # as records
}

struct Revoked {
  # In a certified swarm: ids that the holder of its key has removed from it. All that the sender knows, to a member
  # that knows others; or those that the sender has just heard of, to some members and to the ids themselves.
  entries @0 :Data;               # 105 bytes each, 1 to 512 of them: version 1, id (32), serial (8, little-endian), and
                                  # the swarm key's signature (64) over "starling revocation 1", the swarm's key and all
                                  # before
}

# ---- joining ----

struct Join {
  # From a newcomer to any agent or bootstrap; repeated until answered.
  record @0 :PeerRecord;    # its own; refused if it is not the sender's
  settings @1 :Text;        # what it was started with; empty: it adopts the swarm's. UTF-8, lines, at most 32 KiB.
  nonce @2 :UInt64;         # random, another for each address asked. Only an answer that repeats it counts.
  cookie @3 :UInt64;        # of the last joinCookie from there; 0: none yet
  revision @4 :UInt32;      # of its program, within version 2 of the protocol; a newcomer of an older one is refused.
                            # 0: from before there were any; 1: numbers its requests for the model, and shows the
                            # donor's cookie; 2: signs its records, where the swarm has tickets
  reads @5 :UInt64;         # not 0: from a reader, which does not join. It asks for the records of the swarm of this
                            # id, or, all bits one, of the only swarm there. The answer is a joinReply with the
                            # settings and the record of the replier, and all records as syncs; else a joinRefused.
                            # Its Frame.swarm has all bits one, so that an older program refuses it, too
  signed @6 :Data;          # the record, in a swarm with tickets; `record` is then for older programs alone
  signature @7 :Data;       # of the settings, as in JoinReply; none where the sender has none
}

struct JoinCookie {
  # Join again with this number, which proves that the sender of a Join can be reached where its record says. Goes
  # there, depends on the record and the minute, and leaves nothing to remember. Or ask for the model again with it: it
  # proves that replyHost:replyPort can be reached, depends on those alone, and lasts.
  cookie @0 :UInt64;        # refused if zero
  nonce @1 :UInt64;         # of the Join, or of the request for the model
}

struct JoinReply {
  # Welcome.
  settings @0 :Text;              # the swarm's; empty from a bootstrap that has met no swarm yet. As above.
  members @1 :List(PeerRecord);   # at most 64, the replier among them
  note @2 :Text;                  # for people, from a registry: the swarms of the same name that it serves beside this
                                  # one, and in what their settings differ. UTF-8, lines, at most 4 KiB.
  nonce @3 :UInt64;               # of the Join
  signed @4 :List(Data);          # as members, in a swarm with tickets
  signature @5 :Data;             # likewise: the swarm key's (64 bytes) of "starling settings 1", that key and the
                                  # settings. Without it a newcomer does not take them. Empty elsewhere
}

struct JoinRefused {
  # No: the settings differ, or a registry serves no such swarm. For people: why, and what the swarm has.
  reason @0 :Text;          # UTF-8, lines, at most 4 KiB
  settings @1 :Text;        # the swarm's; empty: the registry serves none that could be meant
  nonce @2 :UInt64;         # of the Join
  held @3 :PeerRecord;      # of the newcomer: the record here, for which the Join's is not taken. The newcomer asks
                            # whether a process answers there, and if none does begins above it. Often none
  signed @4 :Data;          # as held, in a swarm with tickets
}

struct ModelRequest {
  # What model do you have? From a newcomer to a possible donor.
  firstHash @0 :UInt32;     # the answer's hashes begin with this block; below 2^20
  cookie @1 :UInt64;        # of the donor's joinCookie; 0: none yet, so that is the answer
  nonce @2 :UInt64;         # random, another for each donor. Only an answer that repeats it counts: else whoever forges
                            # a donor's frames keeps a newcomer from its model. 0 from older senders.
}

struct ModelOffer {
  # The answer. A long list of hashes takes several requests.
  snapshot @0 :UInt64;      # changes whenever the donor's file changes
  round @1 :UInt64;
  steps @2 :UInt64;
  totalBytes @3 :UInt64;    # 0: nothing to give; else at most 2^20 blocks
  blockBytes @4 :UInt32;    # 1 to 4 MiB; the last block may be shorter
  root @5 :Data;            # 32 bytes: BLAKE2b-256 of all block hashes in order
  firstHash @6 :UInt32;
  hashes @7 :Data;          # 16 bytes (XXH3-128, big end first) per block from firstHash on; at most 2048 of them,
                            # refused beyond the last block
  nonce @8 :UInt64;         # of the modelRequest
}

struct ModelBlockRequest {
  # Send me one block of that snapshot.
  snapshot @0 :UInt64;
  index @1 :UInt32;         # below 2^20
  cookie @2 :UInt64;        # as in ModelRequest
  nonce @3 :UInt64;         # likewise
}

struct ModelBlock {
  # The block, as payload.
  snapshot @0 :UInt64;
  index @1 :UInt32;         # below 2^20
  nonce @2 :UInt64;         # of the modelBlockRequest
}

struct ModelGone {
  # The donor has moved on to a newer snapshot: ask again what it has.
  snapshot @0 :UInt64;
  nonce @1 :UInt64;         # of the modelBlockRequest
}

# ---- the pairwise exchange (its rules stand in pairs/async_pairs.h) ----

struct ExchangeId {
  proposer @0 :Id;          # refused if zero
  generation @1 :UInt64;    # of the proposer
  counter @2 :UInt64;       # only grows within one generation
}

struct Propose {
  # From the proposer: refused if the sender is another. Its blocks follow on the bulk port.
  xid @0 :ExchangeId;
  offer @1 :Float64;        # the share of its snapshot still to give: 1, 1/2 or 1/4; others are refused
  mass @2 :Float64;         # as in PeerRecord
  round @3 :UInt64;
  deadlineMs @4 :UInt32;    # the proposer aborts this long after sending; 1 to 3 600 000
  credit @5 :UInt32;        # the acceptor may send blocks below this index; at most 2^17
  payload @6 :UInt64;       # number of the snapshot that the proposer's blocks are from; 0 from older senders
  fragment @7 :UInt32;      # which part of the model this exchange carries; below the settings' `fragments`
  slot @8 :UInt64;          # by turns: where the proposer is in its schedule, boundary * 8 + which of its exchanges
  stepsUs @9 :UInt32;       # by turns: how long the proposer's steps between two boundaries take, without waiting, the
                            # median of the last ones; 0: not known, or from older senders
  blocksFirst @10 :Bool;    # by turns: all its blocks are on their way, and take long; false from older senders
}

struct Accept {
  # From the acceptor, whose blocks follow on the bulk port.
  xid @0 :ExchangeId;
  offer @1 :Float64;
  mass @2 :Float64;
  round @3 :UInt64;
  credit @4 :UInt32;        # the proposer may send blocks below this index
  payload @5 :UInt64;       # of the acceptor's blocks. When two proposals cross, the blocks that came with the one
                            # given up serve the other, and this says whether they still stand
  slot @6 :UInt64;          # as in Propose, of the acceptor
  stepsUs @7 :UInt32;       # likewise
}

struct Busy {
  # From a peer that was proposed to: not now. Comes before any vote, and costs nothing. By turns also unasked, after
  # the COMMIT: with this agent, whose steps are long, not before then.
  xid @0 :ExchangeId;
  freeInMs @1 :UInt32;
}

struct BlockPayload {
  # Both ways: one encoded block, as payload.
  xid @0 :ExchangeId;
  index @1 :UInt32;         # below 2^17
  stage @2 :UInt8;          # of the codec's dialogue: 0 open, 1 reply, 2 close; others are refused
}

struct Credit {
  # Both ways: the receiver has room for blocks below this index. Repeats and smaller values mean nothing.
  xid @0 :ExchangeId;
  credit @1 :UInt32;        # at most 2^17
}

struct Have {
  # The acceptor's vote, sent once. From here on the acceptor is in doubt and cannot refuse; if no decision comes, it
  # sends `query`.
  xid @0 :ExchangeId;
  blocks @1 :Data;          # bit i of byte i/8, little end first: block i arrived and passed; at most 2^14 bytes
  scale @2 :Float64;        # in [0, 1]
}

struct Commit {
  # The proposer's decision; refused if the sender is another. Repeated until acknowledged.
  xid @0 :ExchangeId;
  blocks @1 :Data;          # those that both sides apply
  scale @2 :Float64;        # the smaller of both; since 0.2.0 each side moves by its own
}

struct Abort {
  # Nothing is applied. From the proposer, also in answer to a query about an exchange it does not remember; from an
  # acceptor that gives up before its vote.
  xid @0 :ExchangeId;
}

struct CommitAck {
  # From the acceptor: the decision has arrived; the proposer may forget it.
  xid @0 :ExchangeId;
}

struct Query {
  # From an acceptor long in doubt: what became of it?
  xid @0 :ExchangeId;
}

struct Missing {
  # Both ways: these blocks of yours have not come. Sent when the other's blocks have stopped coming. They are sent
  # again, each about three times at most.
  xid @0 :ExchangeId;
  blocks @1 :Data;          # as in Have
}

# ---- exchanges in rounds (their rules stand in neighborhood/neighborhood.h and group/group.h) ----

struct RoundBlock {
  # One encoded block, as payload: of the sender's own snapshot to a neighbor or to the block's owner, or an owner's
  # average to a member of the group. Sent once; what is lost stays lost.
  group @0 :UInt64;         # hash of the sorted members; 0: neighborhood
  round @1 :UInt64;
  phase @2 :UInt8;          # 0 the sender's own, 1 an owner's average; others are refused, 1 needs a group
  index @3 :UInt32;         # below 2^17
  mass @4 :Float64;         # of the sender in the mean; as in PeerRecord
  counted @5 :UInt32;       # phase 1: bit i: the group's member of rank i is in this average; else 0
}

struct RoundCredit {
  # The receiver of such blocks has room for those below this index. Repeats and smaller values mean nothing.
  group @0 :UInt64;
  round @1 :UInt64;
  phase @2 :UInt8;          # of the blocks
  credit @3 :UInt32;        # at most 2^17
}

# ---- the log of updates (its rules stand in updates/update_group.h) ----

struct Digest {
  # 16 bytes of a hash, little-endian words.
  a @0 :UInt64;
  b @1 :UInt64;
}

struct LogHead {
  # The last entry of the log of one slice.
  length @0 :UInt64;        # entries so far; below 2^48
  weight @1 :UInt64;        # contributions counted so far; refused outside [length, 32 length]
  hash @2 :Digest;          # zero for the empty log, and only for it
}

struct Contribution {
  # From a member to the slice's owner of the round: an update of the slice, encoded, as payload; a large one in parts
  # of 1 MiB, the last one shorter. The same payload may be sent again in later rounds.
  group @0 :UInt64;         # hash of the sorted members; refused if zero
  round @1 :UInt64;
  slice @2 :UInt32;         # below 64
  seq @3 :UInt64;           # grows with every payload of this sender for this slice; refused if zero
  length @4 :UInt64;        # of the sender's log when the payload was encoded; below 2^48
  head @5 :LogHead;
  mass @6 :Float64;         # as in PeerRecord
  codec @7 :UInt8;          # 1 fp32, 2 bf16, 3 topk, 4 topk with bf16 values; others are refused
  part @8 :UInt32;          # below `parts`
  parts @9 :UInt32;         # 1 to 1024
  audit @10 :Digest;        # of the slice's state at `head`; zero: not this slice's turn
}

struct CountedPayload {
  peerA @0 :UInt64;         # the sender's id, as in Id; refused if all four are zero
  peerB @1 :UInt64;
  peerC @2 :UInt64;
  peerD @3 :UInt64;
  generation @4 :UInt64;
  seq @5 :UInt64;           # refused if zero
  scale @6 :Float32;        # at which the owner took it; in (0, 1]
  norm @7 :Float32;         # of the payload, before the scale; finite, >= 0
}

struct LogEntry {
  # From a slice's owner to all members, and to who pulls: the merged update, as payload, in parts as above. The hash
  # in `head` is the BLAKE2b-128 of all fields but group, part and parts, and of the XXH3-128 of the payload.
  group @0 :UInt64;
  round @1 :UInt64;         # in which it was made
  slice @2 :UInt32;
  head @3 :LogHead;         # of the log that ends with it; length >= 1
  previous @4 :Digest;      # zero for the first entry, and only for it
  divisor @5 :Float64;      # the mass of the whole roster; as in PeerRecord
  counted @6 :List(CountedPayload);   # 1 to 32, ascending by peer
  codec @7 :UInt8;
  part @8 :UInt32;
  parts @9 :UInt32;
  plan @10 :Data;           # slice 0 only: which slices are sent together (gossip/updates/update_plan.h); at most 128
                            # bytes. In the hash unless it is empty. A plan that is no good is ignored, not its entry
}

struct UpdateBundle {
  # Several contributions to one owner, or several entries from it, of slices that a plan joins. Each counts as if it
  # had come in a frame of its own. The payload is theirs, one after the other; each is one part.
  contributions @0 :List(Contribution);
  entries @1 :List(LogEntry);         # 2 to 64 of both together
  sizes @2 :List(UInt32);             # of their payloads, in this order; refused unless they add up to part 2
}

struct LogPull {
  # To any member: send me what follows this head. The answer is logEntry frames if the head is among the last 8 of the
  # other, else sliceState frames; a pull back if the other's head is the smaller one.
  slice @0 :UInt32;
  head @1 :LogHead;
  root @2 :Digest;          # of the state that the sender is collecting; zero: none
  missing @3 :Data;         # its missing blocks, as in Have; empty if root is zero
  group @4 :UInt64;         # in which the sender is: members that own nothing hear of each other's rounds by pulls
  round @5 :UInt64;
}

struct CountedRow {
  # Which payloads of one process a log counts.
  peerA @0 :UInt64;         # as in CountedPayload
  peerB @1 :UInt64;
  peerC @2 :UInt64;
  peerD @3 :UInt64;
  generation @4 :UInt64;
  newest @5 :UInt64;        # seq; refused if zero
  window @6 :UInt64;        # bit i: newest - 1 - i is counted too; refused where that is below 1
  length @7 :UInt64;        # of the log when it counted `newest`; from 1 to that of the head
  far @8 :UInt64;           # the last seq counted that lay over 8 beyond the one before it, at most `newest`; 0: none
  beforeFar @9 :UInt64;     # that one, below `far`; 0: `far` was the first one counted, or is 0
  beforeWindow @10 :UInt64; # as window, of beforeFar
}

struct RecentEntry {
  hash @0 :Digest;          # refused if zero
  norm @1 :Float32;         # of the entry as far as it counts; finite, >= 0
  payloadNorm @2 :Float32;  # the median norm of its payloads; finite, >= 0
}

struct SliceState {
  # The answer to a pull from far behind: one block of the slice as fp32, params first, then the momentum where there is
  # one, as payload. All frames of one state are alike but for `block`.
  slice @0 :UInt32;
  head @1 :LogHead;         # length >= 1
  table @2 :List(CountedRow);         # 1 to 64, ascending by peer
  recent @3 :List(RecentEntry);       # 1 to 8, the newest last: its hash is that of the head
  hashes @4 :Data;          # 16 bytes (XXH3-128, big end first) per block; 1 to 1024 of them
  block @5 :UInt32;         # below their number
}

struct SketchTable {
  # With the codec sketch, from a member to the slice's owner of the round, before its contribution: a count sketch of
  # what it has to hand in, as payload, in parts as a contribution's. It chooses elements, and counts for nothing else.
  group @0 :UInt64;         # as in Contribution, like the next two
  round @1 :UInt64;
  slice @2 :UInt32;
  mass @3 :Float64;         # as in PeerRecord
  part @4 :UInt32;
  parts @5 :UInt32;
}

struct SketchRequest {
  # From the slice's owner of the round to all members: the indices of the elements that their contributions are to
  # hold, as payload. Contributions follow, of who is in that round and has not handed in yet.
  group @0 :UInt64;
  round @1 :UInt64;
  slice @2 :UInt32;
  part @3 :UInt32;
  parts @4 :UInt32;
}
