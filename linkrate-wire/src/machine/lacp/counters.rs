//! Counters of a port, by the names of IEEE8023-LAG-MIB.

/// Counters of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// LACPDUs that arrived and are valid.
    pub lacpdus_rx: u64,
    /// Markers that arrived.
    pub marker_pdus_rx: u64,
    /// Answers to markers that arrived.
    pub marker_response_pdus_rx: u64,
    /// Frames of other slow protocols, and frames to their address that are of none.
    pub unknown_rx: u64,
    /// Slow protocol frames that are cut off or contradict the format.
    pub illegal_rx: u64,
    /// LACPDUs sent.
    pub lacpdus_tx: u64,
    /// Markers sent.
    pub marker_pdus_tx: u64,
    /// Answers to markers sent.
    pub marker_response_pdus_tx: u64,
    /// Times that actor churn was detected.
    pub actor_churn: u64,
    /// Times that partner churn was detected.
    pub partner_churn: u64,
    /// Times that the actor came into sync.
    pub actor_sync_transitions: u64,
    /// Times that the partner came into sync.
    pub partner_sync_transitions: u64,
    /// Changes of the link aggregation group as the actor sees it.
    pub actor_changes: u64,
    /// Changes of the link aggregation group as the partner sees it.
    pub partner_changes: u64,
    /// Beyond the MIB: LACPDUs and markers dropped unread, because more arrived in a second than
    /// the protocol may send.
    pub too_fast_rx: u64,
    /// Beyond the MIB: LACPDUs whose picture of this end is not what this end has sent last: of a
    /// partner that has not heard it yet, repeats old PDUs or invents them.
    pub stale_rx: u64,
    /// Beyond the MIB: markers left unanswered, because more arrived than may be answered.
    pub markers_unanswered: u64,
    /// Beyond the MIB: answers to markers that were not sent, or were answered before.
    pub marker_responses_unexpected: u64,
}

impl Counters {
    /// All of them, each with its name: that of the MIB where it has one.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("dot3adAggPortStatsLACPDUsRx", self.lacpdus_rx),
            ("dot3adAggPortStatsMarkerPDUsRx", self.marker_pdus_rx),
            ("dot3adAggPortStatsMarkerResponsePDUsRx", self.marker_response_pdus_rx),
            ("dot3adAggPortStatsUnknownRx", self.unknown_rx),
            ("dot3adAggPortStatsIllegalRx", self.illegal_rx),
            ("dot3adAggPortStatsLACPDUsTx", self.lacpdus_tx),
            ("dot3adAggPortStatsMarkerPDUsTx", self.marker_pdus_tx),
            ("dot3adAggPortStatsMarkerResponsePDUsTx", self.marker_response_pdus_tx),
            ("dot3adAggPortDebugActorChurnCount", self.actor_churn),
            ("dot3adAggPortDebugPartnerChurnCount", self.partner_churn),
            ("dot3adAggPortDebugActorSyncTransitionCount", self.actor_sync_transitions),
            ("dot3adAggPortDebugPartnerSyncTransitionCount", self.partner_sync_transitions),
            ("dot3adAggPortDebugActorChangeCount", self.actor_changes),
            ("dot3adAggPortDebugPartnerChangeCount", self.partner_changes),
            ("tooFastRx", self.too_fast_rx),
            ("staleRx", self.stale_rx),
            ("markersUnanswered", self.markers_unanswered),
            ("markerResponsesUnexpected", self.marker_responses_unexpected),
        ]
    }
}
