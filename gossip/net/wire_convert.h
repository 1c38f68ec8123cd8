// Conversion between the decoded messages and Cap'n Proto's builders and readers, for wire.cpp. Nothing is judged here
// but what no struct could hold; wire_check.h judges the rest.
#pragma once

#include <capnp/message.h>

#include <string>

#include "gossip/net/wire.h"
#include "gossip/wire.capnp.h"

namespace starling {

void put_id(wire::Id::Builder builder, const PeerId& id);
capnp::Text::Reader text_of(const std::string& text);  // refers to it
void put_message(wire::Frame::Message::Builder builder, const Message& message);

// The readers may throw: capnp finds damage only when a field is read. Lists and texts are cut off one beyond their
// limit, enough for the range check to refuse them.
PeerId get_id(wire::Id::Reader reader);
std::string get_text(capnp::Text::Reader reader, size_t bytes_max);
DecodeStatus get_message(wire::Frame::Message::Reader reader, Message* out);

}  // namespace starling
