"""The Cloud Billing Catalog: reads all SKUs about TPUs, with their current prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.cloud import billing_v1
from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport

from service.cloud.google import pages
from service.cloud.google.calls import call_client
from service.cloud.google.errors import translate_errors
from service.cloud.google.retries import PATIENT, Allowances
from service.domain.pricing.skus import SERVICES, PriceTier, SkuFacts, is_about_tpus

BILLING_HOST = "cloudbilling.googleapis.com"
PAGE_SIZE = 5_000
"""The largest page size; Compute Engine has some tens of thousands of SKUs."""


def catalog_client(channel: grpc.Channel) -> billing_v1.CloudCatalogClient:
    """Google's client over a channel. Its `api_endpoint` names Google even on the emulator's
    channel."""
    return billing_v1.CloudCatalogClient(transport=CloudCatalogGrpcTransport(channel=channel))


class GooglePrices:
    """`service.cloud.ports.PriceFeed` over Google's own client."""

    def __init__(
        self, client: billing_v1.CloudCatalogClient, patience: Allowances = PATIENT
    ) -> None:
        self._client = client
        self._patience = patience

    def list_skus(self) -> Sequence[SkuFacts]:
        """List the SKUs about TPUs of both services. A failed page fails the whole list."""
        found: list[SkuFacts] = []
        with translate_errors():
            for service in SERVICES:
                request = billing_v1.ListSkusRequest(
                    parent=f"services/{service}", currency_code="USD", page_size=PAGE_SIZE
                )
                pager = call_client(self._client.list_skus, request, self._patience.listing)
                for page in pages.all_of(pages.unwrap_pages(pager.pages)):
                    found += [
                        from_message(service, sku)
                        for sku in page.skus
                        if is_about_tpus(sku.category.resource_group, sku.description)
                    ]
        return found


def from_message(service: str, sku: Any) -> SkuFacts:
    """Decode a SKU of the catalogue (the raw message). Never raises."""
    pricing = sku.pricing_info[-1] if sku.pricing_info else None
    expression = None if pricing is None else pricing.pricing_expression
    tiers = () if expression is None else expression.tiered_rates
    return SkuFacts(
        service=service,
        id=sku.sku_id,
        description=sku.description,
        usage_type=sku.category.usage_type,
        regions=tuple(sku.service_regions),
        unit="" if expression is None else expression.usage_unit,
        tiers=tuple(
            PriceTier(
                f"{tier.start_usage_amount:g}",
                tier.unit_price.currency_code,
                tier.unit_price.units,
                tier.unit_price.nanos,
            )
            for tier in tiers
        ),
        effective_at=(
            pricing.effective_time.seconds
            if pricing is not None and pricing.HasField("effective_time")
            else None
        ),
    )
