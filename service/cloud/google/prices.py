"""The Cloud Billing Catalog in our words: every SKU about TPUs, with the price in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from google.cloud import billing_v1
from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport

from service.cloud.google import pages
from service.cloud.google.calls import ask
from service.cloud.google.errors import translated
from service.cloud.google.retries import PATIENT, Allowances
from service.domain.pricing.skus import SERVICES, PriceTier, SkuFacts, is_about_tpus

BILLING_HOST = "cloudbilling.googleapis.com"
PAGE_SIZE = 5_000
"""The most that a page may have; Compute Engine sells some tens of thousands of things."""


def catalog_client(channel: grpc.Channel) -> billing_v1.CloudCatalogClient:
    """Google's client over a channel; its `api_endpoint` names Google even on the emulator's."""
    return billing_v1.CloudCatalogClient(transport=CloudCatalogGrpcTransport(channel=channel))


class GooglePrices:
    """`service.cloud.ports.PriceFeed` over Google's own client."""

    def __init__(
        self, client: billing_v1.CloudCatalogClient, patience: Allowances = PATIENT
    ) -> None:
        self._client = client
        self._patience = patience

    def skus(self) -> Sequence[SkuFacts]:
        """Every SKU about TPUs of both services. One page that fails fails the whole."""
        with translated():
            return [facts for service in SERVICES for facts in self._of(service)]

    def _of(self, service: str) -> Iterator[SkuFacts]:
        request = billing_v1.ListSkusRequest(
            parent=f"services/{service}", currency_code="USD", page_size=PAGE_SIZE
        )
        pager = ask(self._client.list_skus, request, self._patience.listing)
        for page in pages.all_of(pages.raw(pager.pages)):
            for sku in page.skus:
                if is_about_tpus(sku.category.resource_group, sku.description):
                    yield decoded(service, sku)


def decoded(service: str, sku: Any) -> SkuFacts:
    """What the catalogue says of a SKU (the raw message), in our words; never an exception."""
    pricing = sku.pricing_info[-1] if sku.pricing_info else None
    expression = None if pricing is None else pricing.pricing_expression
    return SkuFacts(
        service=service,
        id=sku.sku_id,
        description=sku.description,
        usage_type=sku.category.usage_type,
        regions=tuple(sku.service_regions),
        unit="" if expression is None else expression.usage_unit,
        tiers=() if expression is None else tuple(map(_tier, expression.tiered_rates)),
        effective_at=(
            pricing.effective_time.seconds
            if pricing is not None and pricing.HasField("effective_time")
            else None
        ),
    )


def _tier(rate: Any) -> PriceTier:
    price = rate.unit_price
    return PriceTier(f"{rate.start_usage_amount:g}", price.currency_code, price.units, price.nanos)
